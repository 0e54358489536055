"""What the documentation says of the command line is what the command line says of itself."""

from collections.abc import Iterator
from pathlib import Path

import click

from fencepost.mailbox.cli.app import fencepost

DOCS = Path(__file__).parents[2] / "docs"


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        here = f"{path} {name}"
        if isinstance(command, click.Group):
            yield from commands(command, here)
        else:
            yield here, command


def test_every_command_and_option_is_documented():
    """The page of commands has a heading for each command, and under it each of its options."""
    page = (DOCS / "commands.md").read_text()
    sections = {part.partition("\n")[0].strip(): part for part in page.split("\n### ")[1:]}
    for path, command in commands(fencepost, "fencepost"):
        section = sections[f"`{path}`"]
        for option in command.params:
            if not getattr(option, "hidden", False):
                assert f"{option.opts[-1]}" in section or f"`{option.name.upper()}`" in section, (path, option.name)


def test_every_command_explains_itself():
    """Each command and group has help, and each option has too."""
    for path, command in commands(fencepost, "fencepost"):
        assert command.help, path
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, (path, option.name)


def test_no_page_is_orphaned():
    """Each page of the documentation is reached from the README or another page."""
    pages = {page.name for page in DOCS.glob("*.md")}
    linking = [Path(DOCS.parent / "README.md"), *DOCS.glob("*.md")]
    text = "\n".join(page.read_text() for page in linking)
    assert {page for page in pages if f"docs/{page})" not in text and f"({page})" not in text} == set()
