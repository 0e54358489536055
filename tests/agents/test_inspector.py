"""The tools as the MCP Inspector's command line sees them."""

import json
import os
import subprocess

import pytest
from agents.conftest import FOLDER, LACKING, PATIENCE_S, PROGRAM, installed

PACKAGE = "@modelcontextprotocol/inspector"


@pytest.fixture
def inspect(tmp_path, cannot):
    """What the Inspector prints of a method."""
    if not installed(PACKAGE):
        cannot(LACKING)
    inspector = FOLDER / "node_modules" / ".bin" / "mcp-inspector"

    def inspect(method, *words):
        done = subprocess.run(
            [inspector, "--cli", PROGRAM, "mcp", "--method", method, *words],
            env=os.environ | {"HOME": str(tmp_path)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout)

    return inspect


@pytest.mark.fast
def test_the_tools_are_listed_and_called(inspect):
    """It lists them, and gets from a call what the tool answers."""
    names = {tool["name"] for tool in inspect("tools/list")["tools"]}
    assert {"messages", "search_history", "recall_turn", "memory"} == names

    words = ("--tool-name", "messages", "--tool-arg", "command=send", "--tool-arg", "body=hello")
    answer = inspect("tools/call", *words)

    assert "hello" == answer["structuredContent"]["receipt"]["body"]
    assert answer["structuredContent"] == json.loads(answer["content"][0]["text"])
