"""docs/fleet.md: the machine as its table says, and every key of the configuration."""

import enum
import re
import tomllib
from pathlib import Path

import attrs

from fencepost.mailbox.confirmation import MOVES, Stage
from fencepost.mailbox.events import RoomFound
from fencepost.mailbox.fleet import config
from fencepost.mailbox.fleet.policy import Grant, RoomRule
from fencepost.mailbox.fleet.rules import Rule

PAGE = Path(__file__).parents[2] / "docs" / "fleet.md"
_BEGIN, _END = "<!-- machine -->\n", "<!-- /machine -->"


def machine():
    """The diagram of the table.  What moves nothing but the rooms of an agent is left out."""
    moves = [
        f"    {stage.value} --> {to.value}: {event.__name__}"
        for stage, row in MOVES.items()
        for event, to in row.items()
        if event is not RoomFound
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {Stage.IDLE.value}", *moves, "```", ""])


def keys(kind, prefix=""):
    """Every key that a file may have."""
    for field in attrs.fields(kind):
        inner = next(
            (each for each in (config.Limits, config.AgentRule, RoomRule, Grant) if each.__name__ in str(field.type)),
            None,
        )
        if inner is not config.Limits:
            yield prefix + field.name
        if inner is not None:
            yield from keys(inner, f"{prefix}{field.name}.")


def test_the_diagram_is_the_table():
    """Whoever changes the table draws the diagram anew: it is printed here."""
    shown = PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]

    assert machine() == shown


def test_every_key_is_described():
    """The table has each key, once, and no other."""
    described = re.findall(r"^\| `([a-z_.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(keys(config.Fleet)) == sorted(described)


def test_every_rule_is_described():
    """The row of a key says what fits there, in the words in which anything else is refused."""
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    kinds = {"": config.Fleet, "limits.": config.Limits, "agents.": config.AgentRule}
    kinds |= {"agents.rooms.": RoomRule, "agents.rooms.grants.": Grant}
    ruled = {
        prefix + field.name: field.validator.what
        for prefix, kind in kinds.items()
        for field in attrs.fields(kind)
        if isinstance(field.validator, Rule)
    }

    assert len(ruled) > 10
    assert [] == [key for key, what in ruled.items() if what not in rows[key].replace("`", "")]


def test_the_example_is_taken(tmp_path):
    """What the page shows is a file that can be read."""
    example = PAGE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "fleet.toml"
    path.write_text(example, encoding="utf-8")
    fleet = config.read(str(path))

    assert {"analyst"} == {agent.name for agent in fleet.agents}
    assert tomllib.loads(example)["permits"] == fleet.permits
    assert all(isinstance(agent.runtime, enum.Enum) for agent in fleet.agents)
