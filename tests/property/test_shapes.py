"""What is well formed: a value is taken in its canonical form or refused by name, and nothing else happens."""

import json
import uuid

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some
from property.test_codec import valid

from fencepost.mailbox import codec, shapes
from fencepost.mailbox.addresses import Mode, Mount, Mounts
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.errors import BadInput, FencepostError, InvalidName, InvalidNumber, InvalidText, UnknownMount
from fencepost.mailbox.message import Delivery
from fencepost.mailbox.store.opening import memory_store

#: Each shape, as a function of one value.
SHAPES = {
    "text": lambda value: shapes.text(value, "field", 100),
    "said": lambda value: shapes.said(value, "field", 100),
    "name": lambda value: shapes.name(value, "field"),
    "scope": shapes.scope,
    "actor": shapes.actor,
    "path": shapes.path,
    "message_id": shapes.message_id,
    "whole_number": lambda value: shapes.whole_number(value, "field", 1, 500),
    "choice": lambda value: shapes.choice(value, "field", Delivery),
}
#: Characters that somebody will put into a name some day.
_STRANGE = st.text(
    st.sampled_from("a:/\\ .\0\n\t\x1b\x7f\x85\u00a0\u200b\u202e\u2028\ufeff\ud800é\U0001f600"), max_size=8
)
strange = _STRANGE | st.text(max_size=8) | some.anything


def check(error):
    """An error tells a person and a program."""
    assert str(error)
    assert json.dumps(error.details)


def box():
    """A mailbox in memory."""
    mounts = [Mount("user:me/proj:app", "/project"), Mount("user:me", "/user", Mode.READ_ONLY)]
    return Mailbox(memory_store(), mounts)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@given(value=strange)
def test_a_value_is_taken_or_refused(shape, value):
    """Nothing but a kind of BadInput comes of a bad value, and it has a sentence."""
    try:
        taken = shape(value)
    except BadInput as error:
        check(error)
    else:
        assert taken == shape(taken), "what was taken is taken again, unchanged"


@pytest.mark.parametrize(
    "shape,good",
    [
        ("text", some.texts),
        ("said", some.said),
        ("name", some.names),
        ("scope", some.scopes),
        ("actor", some.actors),
        ("path", some.paths),
        ("message_id", some.ids),
        ("whole_number", st.integers(1, 500)),
    ],
)
@given(data=st.data())
def test_what_is_well_formed_is_taken_as_it_is(shape, good, data):
    """Nothing is trimmed, folded or normalised."""
    value = data.draw(good.filter(lambda value: not isinstance(value, str) or len(value.encode()) <= 100))

    assert value == SHAPES[shape](value)


@pytest.mark.parametrize("shape", ["text", "said", "name", "scope", "actor", "path", "message_id"])
@given(before=some.texts, after=some.texts, bad=st.sampled_from(("\0", "\ud800", "\udfff")))
def test_nul_and_lone_surrogates_are_refused_everywhere(shape, before, after, bad):
    """One decision for every field, and the position is told."""
    with pytest.raises(InvalidText) as caught:
        SHAPES[shape](before + bad + after)

    assert len(before) == caught.value.position


@pytest.mark.parametrize("shape", ["name", "scope", "actor"])
@given(
    name=some.names,
    hidden=st.sampled_from("\u200b\u202e\u2066\ufeff\u00ad\u2028 \t\n\x1b\x7f\x85\u00a0\\"),
)
def test_names_have_nothing_that_cannot_be_seen(shape, name, hidden):
    """White space, controls, bidi and zero-width characters would let two names look the same."""
    kind = "" if shape == "name" else "user:"

    with pytest.raises(InvalidName):
        SHAPES[shape](f"{kind}{name}{hidden}")


@given(some.ids)
def test_a_message_id_is_the_same_in_any_case(message_id):
    """Upper case is taken, and means the same message; other spellings of a uuid are not."""
    assert message_id == shapes.message_id(message_id.upper())
    for other in (uuid.UUID(message_id).hex, f"{{{message_id}}}", f"urn:uuid:{message_id}", f" {message_id}"):
        with pytest.raises(InvalidName):
            shapes.message_id(other)


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, 0, 501, -1, 2**63, float("nan")])
def test_a_whole_number_is_a_whole_number(value):
    """A bool, a float or text is none, and neither is one out of range."""
    with pytest.raises(InvalidNumber):
        SHAPES["whole_number"](value)


@given(st.lists(st.tuples(some.scopes, some.names), max_size=4), some.scopes)
def test_only_what_is_mounted_is_found(mounted, scope):
    """By path or by scope; everything else is an unknown mount, and no empty answer."""
    unique = {scope: name for scope, name in mounted if scope != name}
    paths = {f"/{name}": scope for scope, name in unique.items() if name.isprintable()}
    mounts = Mounts(Mount(scope, path) for path, scope in paths.items())

    for path, there in paths.items():
        assert (there, there) == (mounts.find(path).scope, mounts.find(there).scope)
    if scope not in paths.values():
        with pytest.raises(UnknownMount):
            mounts.find(scope)


_FIELDS = [field.name for field in attrs.fields(Draft)]


@pytest.mark.parametrize("field", _FIELDS)
@given(value=strange)
def test_a_strange_draft_is_sent_or_refused(field, value):
    """Whatever stands in one field: a document that fits the schema comes of it, or an error of ours and nothing."""
    mailbox = box()
    good = {"body": "x", "conversation": "c", "about": "a"}
    try:
        sent = mailbox.send(**(good | {field: value}))
    except FencepostError:
        assert () == mailbox.list(status="all").items
        assert 0 == mailbox.store.change_mark()
    else:
        valid("Mailbox", codec.document(sent.message))


@pytest.mark.parametrize("field", ["message_id", "session", "occurrence", "token", "outcome", "target"])
@given(value=strange)
def test_a_strange_command_is_refused(field, value):
    """Whatever stands in one field of a completion that nobody claimed, the answer is an error of ours."""
    mailbox = box()
    sent = mailbox.send("x", actionable=True)
    good = {"message_id": sent.message.id, "session": "s", "occurrence": 1, "token": "t", "outcome": "o"}

    with pytest.raises(FencepostError):
        mailbox.complete(**(good | {field: value}))


@pytest.mark.parametrize("field", ["target", "session", "status", "limit"])
@given(value=strange)
def test_a_strange_question_is_answered_or_refused(field, value):
    """Whatever stands in one field of a listing, there is an answer or an error of ours."""
    mailbox = box()
    try:
        found = mailbox.list(**{field: value})
    except FencepostError as error:
        check(error)
    else:
        assert () == found.items
