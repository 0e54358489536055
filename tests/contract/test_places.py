"""Where messages go when nobody says so, and when somebody does."""

import pytest


def test_the_home(shell):
    """Without --root and $FENCEPOST_HOME the store is ~/.fencepost."""
    shell.send("hello")

    assert (shell.home / ".fencepost" / "journal").is_dir()


def test_the_environment_variable(shell, tmp_path):
    """$FENCEPOST_HOME is the store where it is set."""
    shell.send("hello", env={"FENCEPOST_HOME": str(tmp_path / "elsewhere")})

    assert (tmp_path / "elsewhere" / "journal").is_dir()
    assert not shell.root.exists()


def test_the_option(shell, tmp_path):
    """--root goes before the environment variable."""
    shell.send("hello", "--root", str(tmp_path / "there"), env={"FENCEPOST_HOME": str(tmp_path / "elsewhere")})

    assert (tmp_path / "there" / "journal").is_dir()
    assert not (tmp_path / "elsewhere").exists()


def test_an_empty_root(shell):
    """An empty --root, such as a shell variable that is not set makes, is refused and not taken for the home."""
    answer = shell.run("messages", "send", "--body", "hello", "--root", "", "--json")

    assert answer.status in (1, 2)
    assert not shell.root.exists()


def test_an_untargeted_send_goes_to_the_project(shell):
    """The project belongs to the user and is named after the directory."""
    sent = shell.send("hello")

    user, _, project = sent["scope"].partition("/")
    assert user.startswith("user:")
    assert "proj:app" == project
    assert [sent] == shell.list("--target", "/project")
    assert [] == shell.list("--target", "/user")


def test_the_user_mount(shell):
    """`/user` is the user's own scope, above all projects."""
    sent = shell.send("hello", "--target", "/user")

    assert "/" not in sent["scope"]
    assert [sent] == shell.list("--target", "/user")
    assert [] == shell.list("--target", "/project")


def test_a_listing_reads_both(shell):
    """Without a target, project and user are read together."""
    project = shell.send("to the project")
    user = shell.send("to the user", "--target", "/user")

    assert [project, user] == shell.list()


def test_a_target_may_be_a_scope(shell):
    """A mounted scope is a name of its mount."""
    sent = shell.send("hello", "--target", "/user")

    assert sent["scope"] == shell.send("again", "--target", sent["scope"])["scope"]


def test_another_directory_is_another_project(shell, tmp_path):
    """A project's messages are not seen from another one; the user's are."""
    other = tmp_path / "work" / "other"
    other.mkdir()
    shell.send("here")
    user = shell.send("to the user", "--target", "/user")

    assert [user] == shell.list(cwd=other)
    assert "proj:other" == shell.send("there", cwd=other)["scope"].partition("/")[2]


@pytest.mark.parametrize("name", ["My App!", "Übung", "..hidden", "a" * 200, "日本語", " "], ids=ascii)
def test_any_directory_has_a_project(shell, tmp_path, name):
    """Whatever a directory is called, there is a scope for it."""
    here = tmp_path / "work" / name
    here.mkdir()

    sent = shell.send("hello", cwd=here)

    assert [sent] == shell.list(cwd=here)


def test_a_mount_of_ones_own(shell):
    """--mount replaces the two mounts of the directory."""
    mount = ("--mount", "scope=team:core,path=/team")

    assert "team:core" == shell.send("hello", *mount)["scope"]
    assert "team:core" == shell.send("hello", *mount, "--target", "/team")["scope"]
    assert 2 == len(shell.list(*mount))
    shell.refused("unknown_mount", "messages", "send", "--body", "hello", *mount, "--target", "/project")


def test_several_mounts(shell):
    """Mounts add up, and the first takes what has no target."""
    mounts = ("--mount", "scope=team:core,path=/team", "--mount", "scope=team:web,path=/web")

    assert "team:core" == shell.send("hello", *mounts)["scope"]
    assert "team:web" == shell.send("hello", *mounts, "--target", "/web")["scope"]
    assert 2 == len(shell.list(*mounts))


def test_a_scope_of_ones_own(shell):
    """--scope replaces the two mounts of the directory by that scope."""
    sent = shell.send("hello", "--scope", "team:core/proj:app")

    assert "team:core/proj:app" == sent["scope"]
    assert [sent] == shell.list("--scope", "team:core/proj:app")


def test_a_read_only_mount(shell):
    """It can be read, and neither added to nor changed."""
    sent = shell.send("hello", "--mount", "scope=team:core,path=/team")
    mount = ("--mount", "scope=team:core,path=/team,ro")

    assert [sent] == shell.list(*mount)
    shell.refused("read_only_mount", "messages", "send", "--body", "hello", *mount)
    shell.refused("read_only_mount", *shell.words("ack", sent, *mount))


def test_an_edit_only_mount(shell):
    """What stands there can be changed, and nothing added."""
    sent = shell.send("hello", "--mount", "scope=team:core,path=/team")
    mount = ("--mount", "scope=team:core,path=/team,eo")

    shell.refused("read_only_mount", "messages", "send", "--body", "hello", *mount)
    assert "one" == shell.step("ack", sent, *mount)["read_by"]


def test_nothing_pending_is_an_answer(shell):
    """An empty mailbox is an empty listing, even before there is a store; a person is told that there is none yet."""
    assert [] == shell.list()
    answer = shell.run("messages", "list")
    assert 0 == answer.status
    assert "Nothing pending" in answer.out
    assert "no store" in answer.err


@pytest.mark.parametrize("target", ["/nowhere", "user:somebody-else", "project", ""])
def test_no_such_mount_is_another_answer(shell, target):
    """A destination that is not mounted is an error which says what is, never an empty listing or a new mailbox."""
    shell.send("hello")

    for words in (("list",), ("send", "--body", "hello")):
        error = shell.refused("unknown_mount", "messages", *words, "--target", target)
        assert "/project" in error["message"]


def test_a_conversation_never_seen_earns_a_note(shell):
    """It may come to be, so the message is sent; a person is told, a program is not disturbed."""
    told = shell.run("messages", "send", "--body", "hello", "--conversation", "enginer")
    assert 0 == told.status
    assert "enginer" in told.err

    quiet = shell.run("messages", "send", "--body", "hello", "--conversation", "enginer2", "--json")
    assert (0, "") == (quiet.status, quiet.err)


def test_a_message_in_another_mount_is_unknown(shell):
    """An id is looked for in what is mounted, and authority is what is mounted."""
    sent = shell.send("hello", "--mount", "scope=team:core,path=/team")

    shell.refused("unknown_message", *shell.words("ack", sent))
    shell.refused("unknown_message", "messages", "view", "--message-id", sent["id"])
