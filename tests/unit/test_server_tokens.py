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


def test_an_allowance_is_of_scopes_and_conversations():
    """Each half is what names begin with."""
    alice = holder("client:alice@user:alice+alice-=tok", "tok")

    alice.allow_scope("user:alice/proj:app")
    alice.allow_conversation("alice-1")
    for check, name in [(alice.allow_scope, "user:bob"), (alice.allow_conversation, "bob-1")]:
        with pytest.raises(Forbidden):
            check(name)
    with pytest.raises(Forbidden):
        alice.allow_everything("everything")


def test_what_is_left_out_of_an_allowance_is_free():
    """One half constrains, and the other does not."""
    scoped, talking = holder("client:a@user:a=t", "t"), holder("client:b+b-=t", "t")

    scoped.allow_conversation("any")
    talking.allow_scope("user:any")
    with pytest.raises(Forbidden) as about_scopes:
        scoped.allow_scope("user:b")
    with pytest.raises(Forbidden) as about_talks:
        talking.allow_conversation("a-1")
    assert "every conversation, and scopes that begin with 'user:a'" == about_scopes.value.allowed
    assert "every scope, and conversations that begin with 'b-'" == about_talks.value.allowed


def test_a_refusal_says_what_the_token_is_for():
    """And what was asked for, so that one of them can be put right."""
    alice = holder("client:alice@user:alice+alice-=tok", "tok")
    with pytest.raises(Forbidden) as told:
        alice.allow_scope("user:bob")

    assert "user:bob" == told.value.name
    assert "scopes and conversations that begin with 'user:alice' or 'alice-'" == told.value.allowed


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
