"""Who may ask a state process: the tokens, their holders and their allowances."""

import pytest

from fencepost.mailbox.errors import Forbidden, UnusableTokens
from fencepost.mailbox.server.tokens import TOKEN_VARIABLE, tokens
from fencepost.mailbox.wire.access import Client


def read(text):
    return tokens({TOKEN_VARIABLE: text})


def holder(text, token):
    return read(text).holder(f"Bearer {token}".encode())


def test_one_token_is_the_default_client():
    """Nobody else is known."""
    assert Client("default") == holder("secret", "secret")
    assert holder("secret", "secre") is None
    assert holder("secret", "") is None


@pytest.mark.parametrize("header", [None, b"", b"secret", b"Basic secret", b"Bearer", b"Bearer secret x", b"\xff"])
def test_another_header_is_nobody(header):
    """Only the scheme and the token as they are."""
    assert read("secret").holder(header) is None


def test_the_scheme_is_known_in_any_case():
    """As HTTP has it."""
    assert read("secret").holder(b"bearer secret") is not None


def test_a_table_names_clients():
    """Each has a token of its own, which may have an equals sign in it."""
    table = "client:alice=one,client:bob/ci=two=="

    assert Client("alice") == holder(table, "one")
    assert Client("bob/ci") == holder(table, "two==")
    assert holder(table, "client:alice=one") is None


def may(check, name):
    """Is it allowed?"""
    try:
        check(name)
    except Forbidden:
        return False
    return True


def test_an_allowance_is_of_scopes_and_conversations():
    """One half says nothing of the names of the other."""
    alice = holder("client:alice@user:alice+alice-=tok", "tok")

    for name in ("user:alice", "user:alice/proj:app", "alice-1"):
        assert (name.startswith("user:"), name == "alice-1") == (
            may(alice.allow_scope, name),
            may(alice.allow_conversation, name),
        )
    for name in ("user:bob", "bob-1"):
        assert not may(alice.allow_scope, name)
        assert not may(alice.allow_conversation, name)
    assert not may(alice.allow_everything, "everything")


@pytest.mark.parametrize(
    "allowed, inside, outside",
    [
        ("user:al", ["user:al", "user:al/proj:app"], ["user:ale", "user:al-2", "user:al:x", "user:a", "team:user:al"]),
        ("user:", ["user:al", "user:al/proj:app"], ["team:al", "users:al", "user"]),
        ("user:al/", ["user:al/proj:app"], ["user:al", "user:ale/proj:app"]),
        ("al-", ["al-1", "al-", "al-1/2"], ["al", "ale-1"]),
        ("al", ["al", "al/1"], ["al-1", "ale"]),
    ],
)
def test_an_allowance_ends_where_a_name_does(allowed, inside, outside):
    """Or with a sign of its own."""
    for client in (holder(f"client:a@{allowed}=t", "t"), holder(f"client:a+{allowed}=t", "t")):
        check = client.allow_conversation if client.scopes is None else client.allow_scope
        assert ([True] * len(inside), [False] * len(outside)) == (
            [may(check, name) for name in inside],
            [may(check, name) for name in outside],
        )


def test_what_is_left_out_of_an_allowance_is_free():
    """One half constrains, and the other does not."""
    scoped, talking = holder("client:a@user:a=t", "t"), holder("client:b+b-=t", "t")

    scoped.allow_conversation("any")
    talking.allow_scope("user:any")
    with pytest.raises(Forbidden) as about_scopes:
        scoped.allow_scope("user:b")
    with pytest.raises(Forbidden) as about_talks:
        talking.allow_conversation("a-1")
    assert "scope 'user:a' and every conversation" == about_scopes.value.allowed
    assert "every scope and conversation 'b-'" == about_talks.value.allowed


def test_a_refusal_says_what_the_token_is_for():
    """And what was asked for, so that one of them can be put right."""
    alice = holder("client:alice@user:alice+alice-=tok", "tok")
    with pytest.raises(Forbidden) as told:
        alice.allow_scope("user:bob")

    assert "user:bob" == told.value.name
    assert "scope 'user:alice' and conversation 'alice-'" == told.value.allowed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two words",
        "tab\t",
        "caf\xe9",
        "one,two",
        "host:a=secret",
        "a=secret",
        "client:=secret",
        "client:a=",
        "client:secret",
        "client:a@secret",
        "client:a b=secret",
        "client:a=secret,",
        "client:a=secret,client:a=other",
        "client:a=secret,client:b=secret",
        "client:a@=secret",
        "client:a+=secret",
        "=secret",
    ],
)
def test_what_says_it_badly_is_refused_without_repeating_it(text):
    """A token is a secret, in an error too."""
    with pytest.raises(UnusableTokens) as refusal:
        read(text)

    assert "secret" not in str(refusal.value).replace("one token", "")
    assert "secret" not in repr(refusal.value.details)


def test_tokens_do_not_show_themselves():
    """Whoever prints them sees none."""
    assert "secret" not in repr(read("client:a=secret"))
