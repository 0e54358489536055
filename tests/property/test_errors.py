"""Every reason to say no: told apart, told in full, and listed in one table."""

import inspect
import pickle
import pkgutil
import string
from importlib import import_module
from pathlib import Path

import pytest

import fencepost.journal
import fencepost.mailbox
from fencepost.journal.errors import BadInput, FencepostError, JournalError, every_error
from fencepost.mailbox.errors import AgentError, HomeserverTrouble, Refused

for package in (fencepost.journal, fencepost.mailbox):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.startswith("fencepost.mailbox.testing"):
            import_module(module.name)

TABLE = Path(__file__).parents[2] / "docs" / "errors.md"
KINDS = sorted({kind for kind in every_error() if kind.__module__.startswith("fencepost.")}, key=lambda kind: kind.code)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
#: These say what would be right, which is what to do.
_SAY_WHAT_IS_RIGHT = {"usage", "invalid_choice", "invalid_number"}
_GROUPS = {
    BadInput: ("What was given", "Correct it and call again.  Nothing was written."),
    Refused: ("What stands there", "Something else must happen first.  Nothing was written."),
    JournalError: ("The store", "The command may be fine; the store cannot do it now."),
    AgentError: ("The program of an agent", "The mailbox is fine, and what is in hand stays in hand."),
    HomeserverTrouble: ("A Matrix homeserver", "What was read of it stays read; it is asked again."),
}


def example(kind):
    """An error of a kind, with a value in each field that can be found again."""
    values = {}
    for base in reversed(kind.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            if name in kind.fields():
                values[name] = 90_000 + len(values) if str(annotation) == "int" else f"<{name}>"
    return kind(**values)


def expected_table():
    """docs/errors.md as the classes say it."""
    lines = ["# Errors", ""]
    lines += [
        "Every error is a `FencepostError` with a stable `code`, its details as fields, and one sentence.",
        "Catch a kind to tell whose turn it is.  `fencepost … --json` prints the code, the sentence and the fields.",
        "",
    ]
    for root, (title, whose_turn) in _GROUPS.items():
        lines += [f"## {title}: `{root.__name__}`", "", whose_turn, ""]
        lines += ["| code | class | when | fields | exit status | on the wire |", "|---|---|---|---|---|---|"]
        for kind in KINDS:
            if issubclass(kind, root):
                when = inspect.getdoc(kind).splitlines()[0]
                fields = ", ".join(f"`{name}`" for name in kind.fields()) or "none"
                wire = f"{kind.wire_status} `{kind.wire_code}`"
                lines.append(f"| `{kind.code}` | `{kind.__name__}` | {when} | {fields} | {kind.exit_status} | {wire} |")
        lines.append("")
    return "\n".join(lines)


def test_the_table_is_complete():
    """Each code with its fields, its exit status and its code on the wire, as the classes have it."""
    assert expected_table() == TABLE.read_text(encoding="utf-8")


def test_codes_tell_reasons_apart():
    """No two classes share a code."""
    assert len({kind.code for kind in KINDS}) == len(KINDS)


@each_kind
def test_a_reason_is_of_one_kind(kind):
    """What was given, what stands there, the store, or an agent's program: one of them has its turn."""
    assert 1 == sum(issubclass(kind, root) for root in _GROUPS)


@each_kind
def test_a_code_is_a_plain_word(kind):
    """As the published schema says."""
    assert set(kind.code) <= set(string.ascii_lowercase + string.digits + "_")


@each_kind
def test_a_sentence_says_all_fields(kind):
    """A person reads what a program gets."""
    error = example(kind)
    unsaid = {name for name, value in error.details.items() if str(value) not in str(error)}

    assert set() == unsaid


@each_kind
def test_a_sentence_says_what_to_do(kind):
    """Behind what happened there is what to do next, and no full stop."""
    assert ":" in kind.sentence or kind.code in _SAY_WHAT_IS_RIGHT
    assert not kind.sentence.endswith(".")


@each_kind
def test_an_error_survives_pickling(kind):
    """It can come back from another process, with its fields."""
    error = example(kind)
    back = pickle.loads(pickle.dumps(error))

    assert (type(error), error.details, str(error)) == (type(back), back.details, str(back))


@each_kind
def test_the_exit_status_is_one_or_two(kind):
    """Two for the wrong words, one for everything else."""
    assert kind.exit_status == (2 if kind.code == "usage" else 1)


@each_kind
def test_fields_are_attributes(kind):
    """Whoever catches it can ask for each of them."""
    error = example(kind)

    assert error.details == {name: getattr(error, name) for name in kind.fields()}


def test_the_root_has_no_fields():
    """Nothing raises it, and everything can be caught by it."""
    assert () == FencepostError.fields()
    assert all(issubclass(kind, FencepostError) for kind in KINDS)
