"""What is in the wheel."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_with_code_is_a_package_of_the_wheel():
    """A new folder below mailbox/ or journal/ cannot be forgotten in pyproject.toml, nor an old one stay in it."""
    folders = {
        f"fencepost.{'.'.join(file.parent.relative_to(CHECKOUT).parts)}"
        for top in ("mailbox", "journal")
        for file in (CHECKOUT / top).rglob("*.py")
    }

    assert folders | {"fencepost.contracts"} == set(PROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize(
    "name",
    ["contracts/state-v1.schema.json", "journal/py.typed", "mailbox/py.typed"],
)
def test_data_is_shipped(name):
    """The schema and the typing markers are installed, byte for byte."""
    installed = importlib.metadata.distribution("fencepost").locate_file(f"fencepost/{name}")
    source = CHECKOUT / ("assets" if name.startswith("contracts/") else ".") / name

    assert source.read_bytes() == Path(installed).read_bytes()


def test_nothing_is_installed_at_the_top():
    """Everything is under fencepost: a top-level `mailbox` would hide the standard library's."""
    top = importlib.metadata.distribution("fencepost").read_text("top_level.txt")

    assert ["fencepost"] == top.split()


def test_only_the_five_core_dependencies():
    """Whatever else is needed somewhere is an extra."""
    names = sorted(requirement.partition(">")[0] for requirement in PROJECT["project"]["dependencies"])

    assert ["attrs", "cattrs", "click", "orjson", "portalocker"] == names
