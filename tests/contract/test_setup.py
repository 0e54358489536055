"""`fencepost setup` and `fencepost status`, over the files of clients in a home."""

import json
import os
import re
import stat
import subprocess
import tomllib

import pytest

FILES = {
    "claude-code": (".claude", "settings.json"),
    "codex": (".codex", "hooks.json"),
    "cursor": (".cursor", "hooks.json"),
    "muse-code": (".muse-code", "settings.json"),
}
MINE = {
    "model": "opus",
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "PreToolUse": []},
    "permissions": {"allow": ["Bash(ls)"]},
}


def setup(shell, *words, status=0):
    answer = shell.run("setup", *words)
    assert status == answer.status, answer.err
    return answer


def write(shell, *words, status=0):
    return setup(shell, "--write", "--yes", *words, status=status)


@pytest.fixture(params=FILES)
def client(request, shell):
    """A client whose folder is there."""
    (shell.home / FILES[request.param][0]).mkdir()
    return request.param


def file_of(shell, client):
    folder, name = FILES[client]
    return shell.home / folder / name


def commands(value):
    """Every command in settings, wherever it stands."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "command" and isinstance(each, str):
                yield each
            yield from commands(each)
    elif isinstance(value, list):
        for each in value:
            yield from commands(each)


def ours(shell, client):
    found = commands(json.loads(file_of(shell, client).read_text()))
    return [each for each in found if f"hook --client {client}" in each]


def test_nothing_is_written_unless_asked(shell, client):
    """It shows what would change, and where."""
    answer = setup(shell)

    assert "--write" in answer.out
    assert str(file_of(shell, client)) in answer.out
    assert not file_of(shell, client).exists()


def test_the_hooks_are_there_once(shell, client):
    """Written, with the program's whole path, private; the second time nothing changes."""
    write(shell)
    once = file_of(shell, client).read_text()
    found = ours(shell, client)

    assert found
    assert all(each.startswith(shell.program) for each in found)
    assert 0 == stat.S_IMODE(file_of(shell, client).stat().st_mode) & 0o077
    assert "Nothing to change" in write(shell).out
    assert once == file_of(shell, client).read_text()


def test_what_else_is_there_stays(shell, client):
    """In its order, with its indentation, and the file with its mode; after removing it is all that is there."""
    file = file_of(shell, client)
    mine = MINE if client != "cursor" else {"version": 1, "hooks": {"stop": [{"command": "say done"}]}, "x": 1}
    file.write_text(json.dumps(mine, indent=4) + "\n")
    file.chmod(0o640)

    write(shell)
    merged = json.loads(file.read_text())
    assert set(mine) <= set(merged)
    assert "say done" in set(commands(merged))
    assert re.search(r'^    "', file.read_text(), re.MULTILINE)
    write(shell, "--remove")

    assert mine == json.loads(file.read_text())
    assert 0o640 == stat.S_IMODE(file.stat().st_mode)


def test_our_old_entries_are_brought_up_to_date(shell, client):
    """Another place of the program, another form: there is one entry for each event in the end."""
    write(shell)
    file = file_of(shell, client)
    expected = file.read_text()
    file.write_text(expected.replace(shell.program, "/old/place/fencepost"))

    write(shell)

    assert expected == file.read_text()


@pytest.mark.parametrize(
    "text", ['{\n  // mine\n  "model": "x"\n}\n', "{", "[]", '{"hooks": []}', '{"hooks": {"Stop": 3}}']
)
def test_a_file_that_cannot_be_merged_is_left_alone(shell, text):
    """The lines for it are shown instead."""
    (shell.home / ".claude").mkdir()
    file = file_of(shell, "claude-code")
    file.write_text(text)

    answer = write(shell, "--client", "claude-code", status=1)

    assert text == file.read_text()
    assert "left alone" in answer.err
    assert "hook --client claude-code" in answer.out


def test_codex_keeps_the_comments_of_its_settings(shell):
    """The tools are a block of their own at the end, which goes again."""
    (shell.home / ".codex").mkdir()
    file = shell.home / ".codex" / "config.toml"
    text = '# mine\nmodel = "x"  # and this\n\n[features]\nplugins = false\n'
    file.write_text(text)

    write(shell)
    written = file.read_text()
    assert written.startswith(text.rstrip("\n"))
    assert {"command": shell.program, "args": ["mcp"]} == tomllib.loads(written)["mcp_servers"]["fencepost"]
    assert "Nothing to change" in write(shell).out
    write(shell, "--remove")

    assert text.strip() == file.read_text().strip()


def test_codex_has_to_trust_and_setup_does_not_do_it(shell):
    """It says so, and writes nothing about trust."""
    (shell.home / ".codex").mkdir()

    answer = write(shell)

    assert "trust" in answer.err
    assert "trusted" not in (shell.home / ".codex" / "config.toml").read_text()


def test_no_home_of_another_program_is_made(shell):
    """A client that is not there is none."""
    assert "No client was found" in write(shell).out
    assert not [path for path in shell.home.iterdir() if path.name != ".fencepost"]


@pytest.mark.parametrize("words", [("--client", "cursor"), ("--client", "cursor", "--at", "cursor=/nowhere/x")])
def test_a_named_client_that_is_not_there(shell, words):
    """Where it was looked for is told."""
    (shell.home / ".claude").mkdir()

    answer = setup(shell, *words, status=2)

    assert ("/nowhere/x" if "--at" in words else str(shell.home / ".cursor")) in answer.err


def test_nobody_answers(shell):
    """Who cannot be asked is told how to write without."""
    (shell.home / ".claude").mkdir()

    answer = setup(shell, "--write", status=2)

    assert "--yes" in answer.err
    assert not file_of(shell, "claude-code").exists()


def test_somebody_declines(shell):
    """Nothing is written, and nothing is said as if it were."""
    (shell.home / ".codex").mkdir()
    process = shell.start("setup", "--write", stdin=subprocess.PIPE, text=True)
    out, err = process.communicate("n\n", timeout=60)

    assert "Nothing was written." in out
    assert "trust" not in err
    assert not file_of(shell, "codex").exists()


def tools_of_claude(shell):
    """As its own command leaves them."""
    server = {"type": "stdio", "command": shell.program, "args": ["mcp"], "env": {}}
    (shell.home / ".claude.json").write_text(json.dumps({"numStartups": 3, "mcpServers": {"fencepost": server}}))


def test_the_tools_of_claude_are_for_its_own_command(shell):
    """It is told until that has been done, and again where they are to be taken out."""
    (shell.home / ".claude").mkdir()
    assert "claude mcp add" in write(shell).err
    assert "mail registered for the user; tools NOT registered" in shell.run("status").out
    assert "claude mcp remove" not in setup(shell, "--remove").err
    tools_of_claude(shell)

    assert "claude mcp" not in write(shell).err
    assert "mail registered for the user; tools registered for the user" in shell.run("status").out
    assert "claude mcp remove" in write(shell, "--remove").err


def test_half_a_registration_is_told(shell):
    """By status, for each half."""
    (shell.home / ".codex").mkdir()
    file_of(shell, "codex").write_text("{")
    write(shell, status=1)

    assert "tools registered for the user; mail NOT registered" in shell.run("status").out
    (found,) = (each for each in json.loads(shell.run("status", "--json").out)["clients"] if each["client"] == "codex")
    assert ([], ["user"]) == (found["mail"], found["tools"])


def test_codex_has_no_tools_for_one_project(shell):
    """That is told."""
    (shell.home / ".codex").mkdir()

    assert "without --level project" in write(shell, "--level", "project").err


def test_what_goes_whole_is_removed(shell):
    """A file that held nothing else is shown as gone, and said to be."""
    (shell.home / ".claude").mkdir()
    write(shell)

    out = write(shell, "--remove").out
    assert f"removed: {file_of(shell, 'claude-code')}" in out
    assert "+{}" not in out
    assert not file_of(shell, "claude-code").exists()


def test_a_folder_elsewhere(shell, tmp_path):
    """It is named, by an option or by the client's own variable."""
    (tmp_path / "claude").mkdir()
    write(shell, "--at", f"claude-code={tmp_path / 'claude'}")
    assert (tmp_path / "claude" / "settings.json").exists()

    (tmp_path / "codex").mkdir()
    shell.environ["CODEX_HOME"] = str(tmp_path / "codex")
    write(shell)
    assert (tmp_path / "codex" / "hooks.json").exists()

    for words in ("nowhere", "claude-code=", "emacs=/x"):
        assert 2 == shell.run("setup", "--at", words).status


def test_for_one_project(shell, client):
    """The entries are in the project's folder, and not in the home."""
    write(shell, "--level", "project")

    assert not file_of(shell, client).exists()
    folder, name = FILES[client]
    assert "hook --client" in (shell.here / folder / name).read_text()


def test_a_link_stays_a_link(shell):
    """Settings that are kept elsewhere are changed there."""
    (shell.home / ".claude").mkdir()
    real = shell.home / "dotfiles.json"
    real.write_text("{}")
    file_of(shell, "claude-code").symlink_to(real)

    write(shell)

    assert file_of(shell, "claude-code").is_symlink()
    assert "hook --client" in real.read_text()


def test_status_tells_what_is_there(shell, client):
    """Found, registered, whether the program is where it says, and when the client was last heard of."""

    def told():
        answer = shell.run("status", "--json")
        assert 0 == answer.status
        document = json.loads(answer.out)
        return {each["client"]: each for each in document["clients"]}[client], document["store"]

    found, store = told()
    assert found["found"]
    assert not found["registered"]
    assert store["good"]
    write(shell)
    found, _ = told()
    assert ["user"] == list(found["registered"])
    assert found["program_found"]
    file = file_of(shell, client)
    for other in (file, *([file.with_name("config.toml")] if client == "codex" else [])):
        other.write_text(other.read_text().replace(shell.program, "/nowhere/fencepost"))
    if client == "cursor":
        (file.with_name("mcp.json")).unlink()
    assert told()[0]["program_found"] is False
    assert "NOT WHERE IT SAYS" in shell.run("status").out


@pytest.mark.parametrize(
    "variable,value,place",
    [
        ("URL", "http://127.0.0.1:1", "the state process at http://127.0.0.1:1 ("),
        ("URL", "http://me:sekret@127.0.0.1:1", "what $FENCEPOST_URL names"),
        ("DATABASE_URL", "postgresql://me:sekret@127.0.0.1:1/mail", "database mail on 127.0.0.1, schema fencepost ("),
        ("DATABASE_URL", "postgresql://me:sek@ret@127.0.0.1:1/mail", "what $FENCEPOST_DATABASE_URL names"),
    ],
)
def test_status_names_the_store(shell, variable, value, place):
    """That which is used, and no secret of it."""
    shell.environ |= {f"FENCEPOST_{variable}": value, "FENCEPOST_CLIENT_TOKEN": "sekret"}

    shown = shell.run("status")
    told = json.loads(shell.run("status", "--json").out)["store"]

    assert (0, "") == (shown.status, shown.err)
    assert f"store: {place}" in shown.out
    assert told["place"].startswith(place)
    assert told["good"] is False
    assert "sek" not in shown.out + json.dumps(told)


def test_status_names_the_folder(shell):
    """Also one that is named by hand."""
    assert f"store: {shell.home / '.fencepost'}: " in shell.run("status").out
    assert f"store: {shell.here / 'other'}: " in shell.run("status", "--root", "other").out


def test_status_knows_when_a_client_was_heard_of(shell):
    """At its last call of a hook."""
    document = {"session_id": "s", "cwd": str(shell.here), "hook_event_name": "UserPromptSubmit", "prompt": "x"}
    shell.run("hook", "--client", "codex", stdin=json.dumps(document).encode())

    found = {each["client"]: each for each in json.loads(shell.run("status", "--json").out)["clients"]}

    assert found["codex"]["last_seen"] is not None
    assert found["claude-code"]["last_seen"] is None


DEEP = "[" * 100_000 + "]" * 100_000
UNMERGEABLE = {
    "not utf-8": (".claude/settings.json", b'{"model": "\xe9"}'),
    "utf-16": (".claude/settings.json", '{"model": "x"}'.encode("utf-16")),
    "deep": (".claude/settings.json", b'{"a": %s}' % DEEP.encode()),
    "a name twice": (".claude/settings.json", b'{"a": 1, "a": 2}'),
    "a surrogate": (".claude/settings.json", b'{"a": "\\ud800"}'),
    "too large a number": (".claude/settings.json", b'{"a": 1e999}'),
    "too fine a number": (".claude/settings.json", b'{"a": 0.12345678901234567890}'),
    "no number": (".claude/settings.json", b'{"a": NaN}'),
    "no servers": (".cursor/mcp.json", b'{"mcpServers": null}'),
    "another fencepost": (".cursor/mcp.json", b'{"mcpServers": {"fencepost": {"command": "mine"}}}'),
    "toml not utf-8": (".codex/config.toml", b"x = '\xe9'\n"),
    "toml deep": (".codex/config.toml", b"x = %s\n" % DEEP.encode()),
    "toml closed table": (".codex/config.toml", b"mcp_servers = {}\n"),
    "toml in a text": (".codex/config.toml", b'x = """\n# fencepost: begin\nmine\n# fencepost: end\n"""\n'),
    "toml with more between the marks": (
        ".codex/config.toml",
        b'# fencepost: begin\n[mcp_servers.fencepost]\ncommand = "x"\n[b]\nmine = 1\n# fencepost: end\n',
    ),
}


@pytest.mark.parametrize("name,text", UNMERGEABLE.values(), ids=[name.replace(" ", "-") for name in UNMERGEABLE])
def test_what_would_lose_something_is_left_alone(shell, name, text):
    """By setup, by taking out, and by status: to the byte, with one sentence, and never with a traceback."""
    file = shell.home / name
    file.parent.mkdir()
    file.write_bytes(text)

    answers = [write(shell, status=1), shell.run("setup", "--write", "--yes", "--remove"), shell.run("status")]

    assert text == file.read_bytes()
    assert f"{file} is left alone" in answers[0].err
    assert all("Traceback" not in answer.err for answer in answers)
    assert 0 == answers[2].status


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop"])
def test_what_is_no_file_is_left_alone(shell, kind):
    """Nobody waits for it either, and the other files of the client are written."""
    (shell.home / ".codex").mkdir()
    file = file_of(shell, "codex")
    {"folder": file.mkdir, "fifo": lambda: os.mkfifo(file), "loop": lambda: file.symlink_to(file.name)}[kind]()

    assert "left alone" in write(shell, status=1).err
    assert "[mcp_servers.fencepost]" in (shell.home / ".codex" / "config.toml").read_text()
    assert 0 == shell.run("status").status


def test_a_file_that_was_changed_meanwhile_is_left_alone(shell):
    """Between showing and writing a client may have written its settings itself."""
    (shell.home / ".claude").mkdir()
    file = file_of(shell, "claude-code")
    file.write_text("{}")
    process = shell.start("setup", "--write", stdin=subprocess.PIPE, text=True)
    asked = ""
    while "Write this?" not in asked:
        asked += process.stderr.read(1)
    file.write_text('{"model": "x"}')
    _, err = process.communicate("y\n", timeout=60)

    assert "somebody has changed it meanwhile" in err
    assert '{"model": "x"}' == file.read_text()


def test_the_ends_of_lines_stay(shell):
    """Those of a file from another system too."""
    (shell.home / ".codex").mkdir()
    (shell.home / ".claude").mkdir()
    texts = {".claude/settings.json": b'{\r\n  "model": "x"\r\n}\r\n', ".codex/config.toml": b"# mine\r\nx = 1\r\n"}
    for name, text in texts.items():
        (shell.home / name).write_bytes(text)
    write(shell)
    for name in texts:
        written = (shell.home / name).read_bytes()
        assert b"fencepost" in written
        assert written.count(b"\n") == written.count(b"\r\n")
    write(shell, "--remove")

    assert texts == {name: (shell.home / name).read_bytes() for name in texts}


def test_what_somebody_has_added_to_our_lines_stays(shell):
    """A word, and a variable before it; doing it again brings the program up to date, and nothing more."""
    (shell.home / ".claude").mkdir()
    write(shell)
    file = file_of(shell, "claude-code")
    mine = file.read_text().replace("--client claude-code", "--client claude-code --no-turns")
    mine = mine.replace(f"{shell.program} hook", f"FENCEPOST_HOME='/a b' {shell.program} hook")
    file.write_text(mine.replace(shell.program, "/old/fencepost"))

    write(shell)

    assert mine == file.read_text()


def test_lines_that_do_more_are_somebody_elses(shell):
    """They are not taken out."""
    (shell.home / ".claude").mkdir()
    file = file_of(shell, "claude-code")
    lines = ["echo 'fencepost hook --client x'", "cd /x && fencepost hook --client claude-code || true", None]
    hooks = {"hooks": {"Stop": [None, {"hooks": [None, *({"command": line} for line in lines)]}, {"hooks": []}]}}
    file.write_text(json.dumps(hooks))
    write(shell)
    write(shell, "--remove")

    assert hooks == json.loads(file.read_text())


def test_taking_out_leaves_a_link(shell):
    """What it leads to is emptied of ours, and not forgotten with it."""
    (shell.home / ".claude").mkdir()
    real = shell.home / "dotfiles.json"
    file_of(shell, "claude-code").symlink_to(real)
    real.write_text("{}")
    write(shell)
    write(shell, "--remove")

    assert file_of(shell, "claude-code").is_symlink()
    assert {} == json.loads(real.read_text())
