"""
How the answers of a model look on the wire, and where the words of users are in a request.

A format is a function from a request's body and a step to the parts of a stream of server-sent events.  A step has a
text, with or without a pause before it, or else a tool and its arguments.
"""

import itertools
import json

# Stands in a stream where the step is asked to wait.
PAUSE = object()

# A client may take two answers of one id for one.
_numbers = itertools.count(1)


def _event(value, name=None):
    """A part of a stream."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(value)}\n\n".encode()


def _named(events):
    for event in events:
        yield event if event is PAUSE else _event(event, event["type"])


def _pauses(step):
    return hasattr(step, "wait")


def _whole(step):
    return (step.FIRST if _pauses(step) else "") + step.text


def _speaks(step):
    return hasattr(step, "text")


def _messages(body, step):
    number = next(_numbers)
    shell = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": shell}
    if _speaks(step):
        block, reason = {"type": "text", "text": ""}, "end_turn"
        deltas = [{"type": "text_delta", "text": step.text}]
        if _pauses(step):
            deltas = [{"type": "text_delta", "text": step.FIRST}, PAUSE, *deltas]
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}]
        reason = "tool_use"
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield delta if delta is PAUSE else {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    yield {"type": "message_stop"}


def _responses(_, step):
    number = next(_numbers)
    response, name = {"id": f"resp_{number}"}, f"item_{number}"
    yield {"type": "response.created", "response": response}
    if _speaks(step):
        item = {"type": "message", "role": "assistant", "id": name, "content": []}
        if _pauses(step):
            # Only what was announced may come in pieces.
            yield {"type": "response.output_item.added", "output_index": 0, "item": item}
            delta = {"type": "response.output_text.delta", "item_id": name, "output_index": 0, "content_index": 0}
            yield delta | {"delta": step.FIRST}
            yield PAUSE
            yield delta | {"delta": step.text}
        item = item | {"content": [{"type": "output_text", "text": _whole(step)}]}
    else:
        namespace, _, tool = step.tool.rpartition("/")
        item = {
            "type": "function_call",
            "id": name,
            "call_id": f"call_{number}",
            "name": tool,
            **({"namespace": namespace} if namespace else {}),
            "arguments": json.dumps(step.arguments),
        }
    yield {"type": "response.output_item.done", "item": item}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    yield {"type": "response.completed", "response": response | {"usage": usage}}


def _chat(body, step):
    number, model = next(_numbers), body.get("model", "scripted")
    shell = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta, reason=None):
        return _event(shell | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    if _speaks(step):
        if _pauses(step):
            yield chunk({"content": step.FIRST})
            yield PAUSE
        yield chunk({"content": step.text})
        yield chunk({}, "stop")
    else:
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
        yield chunk({}, "tool_calls")
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield _event(shell | {"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


# The end of a path -> what is streamed there.
FORMATS = {
    "/chat/completions": _chat,
    "/responses": lambda body, step: _named(_responses(body, step)),
    "/messages": lambda body, step: _named(_messages(body, step)),
}


def user_texts(body):
    """What users said, in order: all three formats keep it in items of the role `user`."""
    items = body.get("messages") or body.get("input") or []
    if isinstance(items, str):
        return (items,)
    found = []
    for item in items:
        if item.get("role") == "user":
            content = item.get("content") or []
            parts = [{"text": content}] if isinstance(content, str) else content
            found += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return tuple(found)
