"""
Is there an order of operations that explains what everybody was told?

Operations overlap in time.  A history is *linearizable* if each operation can be given one moment between its begin and
its end so that doing them one after another at those moments gives the same answers (Wing and Gong, "Testing and
verifying concurrent objects", 1993; with a memory of what was tried, as Lowe did).  An operation that was never
answered may have happened at any later moment, or never.
"""

from dataclasses import dataclass, replace
from typing import Any

NEVER = 1 << 62


@dataclass(frozen=True)
class Operation:
    """One call: by whom, what, from when to when, and what the answer was; None where none came."""

    who: str
    doing: str
    begin: int
    end: int
    answer: Any
    token: str = ""

    @property
    def changes(self):
        """May it have changed anything?"""
        if self.doing == "list":
            return False
        return self.answer is None or not ("refused" in self.answer or self.answer.get("repeated"))


@dataclass(frozen=True)
class State:
    """A message as the checker understands it, which knows nothing of the product: every lease runs on for ever."""

    version: int = 0
    stage: str = "none"
    owner: str = ""
    token: str = ""


def after(state, op):
    """
    What the operation leaves, if its answer is right in this state; None where it is not.

    Without an answer, what it leaves if it succeeds; nobody needs it where it is refused.
    """
    right, answer = _expected(state, op)
    if op.answer is None:
        return right if right is not None and answer.get("version", 0) > state.version else None
    given = op.answer
    if op.doing == "claim" and "token" in given:
        if right is None or (given.get("repeated") and given["token"] != state.token):
            return None
        right = replace(right, token=given["token"])
        given = {name: value for name, value in given.items() if name != "token"}
    if given != answer:
        return None
    return right


def _expected(state, op):
    """The state after an operation and its answer."""
    if op.doing == "list":
        return state, {"version": state.version}
    if op.doing == "send":
        # A second message of the same id cannot be: who tries again finds the place taken, however often.
        if state.version:
            return state, {"refused": "journal_conflict"}
        return State(1, "unread"), {"version": 1}
    if not state.version:
        return state, {"refused": "unknown_message"}
    refusal = _refusal(state, op)
    if refusal is not None:
        return state, {"refused": refusal}
    if _is_done(state, op):
        return state, {"version": state.version, "repeated": True}
    moved = {
        "claim": replace(state, stage="claimed", owner=op.who, token="?"),
        "renew": state,
        "complete": replace(state, stage="done"),
        "release": replace(state, stage="unread", owner="", token=""),
        "ack": replace(state, stage="read", owner="", token=""),
    }[op.doing]
    return replace(moved, version=state.version + 1), {"version": state.version + 1, "repeated": False}


def _holds(state, op):
    return (state.owner, state.token) == (op.who, op.token) and state.stage in ("claimed", "done")


def _refusal(state, op):
    if state.stage == "done":
        return None if op.doing == "complete" and _holds(state, op) else "closed"
    if op.doing in ("claim", "ack"):
        return "claimed" if state.stage == "claimed" and state.owner != op.who else None
    if state.stage != "claimed":
        return "lease_expired"
    return None if _holds(state, op) else "lease_lost"


def _is_done(state, op):
    """Was that done before, so that saying it again changes nothing?"""
    if op.doing == "complete":
        return state.stage == "done"
    if op.doing == "claim":
        return state.stage == "claimed"
    return op.doing == "ack" and state.stage in ("read", "claimed")


def explain(operations):
    """An order that explains a history of one message; None where there is none."""
    ops = sorted(operations, key=lambda op: op.begin)
    needed = sum(1 << n for n, op in enumerate(ops) if op.answer is not None)
    tried = set()
    path = []

    def search(done, state):
        if done & needed == needed:
            return True
        if (done, state) in tried:
            return False
        tried.add((done, state))
        soonest = min(op.end for n, op in enumerate(ops) if not done >> n & 1)
        for n, op in enumerate(ops):
            if done >> n & 1:
                continue
            if op.begin > soonest:  # something else was over before this began
                break
            following = after(state, op)
            if following is not None:
                path.append(op)
                if search(done | 1 << n, following):
                    return True
                path.pop()
        return False

    return list(path) if search(0, State()) else None


def shortest_counterexample(operations):
    """
    The part of an unexplained history that a person has to look at.

    It is cut behind the first answer that nothing explains any more; calls not over by then count as not answered.
    Then what changed nothing is left out as long as the rest stays unexplained.  Nothing else may be: without what was
    changed the most honest history cannot be explained.
    """
    ops = sorted(operations, key=lambda op: op.begin)
    for end in sorted({op.end for op in ops if op.answer is not None}):
        cut = [op if op.end <= end else replace(op, end=NEVER, answer=None) for op in ops if op.begin <= end]
        if explain(cut) is None:
            ops = cut
            break
    for op in list(ops):
        if not op.changes:
            fewer = [other for other in ops if other is not op]
            if explain(fewer) is None:
                ops = fewer
    return ops


def trace(operations):
    """Operations as lines to be read."""
    first = min(op.begin for op in operations)
    lines = []
    for op in sorted(operations, key=lambda op: op.begin):
        end = "    never" if op.answer is None else f"{(op.end - first) / 1e6:9.3f}"
        asked = f"{op.doing}({op.token})" if op.token and op.doing in ("renew", "complete", "release") else op.doing
        lines.append(f"{(op.begin - first) / 1e6:9.3f} … {end} ms  {op.who:>6}  {asked:<45} -> {op.answer}")
    return "\n".join(lines)
