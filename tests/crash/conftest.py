"""
What happens to a store when processes, disks and machines fail.

By default only the tests marked `sample` run, with fewer of everything.  `tox -e crash` sets FENCEPOST_CRASH=all.
"""

import os
from collections import Counter

import pytest
from crash.scenes import prepare_machine

EVERYTHING = os.environ.get("FENCEPOST_CRASH") == "all"


def pytest_configure(config):
    config.addinivalue_line("markers", "sample: a test of tests/crash that is quick enough for every run")


def pytest_collection_modifyitems(config, items):
    if EVERYTHING:
        return
    here = os.path.dirname(__file__)
    left = [item for item in items if str(item.path).startswith(here) and item.get_closest_marker("sample") is None]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter):
    counts = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "crash tally" and getattr(report, "when", "") == "teardown":
                    counts.update(value)
    if counts:
        terminalreporter.section("what was tried")
        for name, count in counts.items():
            terminalreporter.write_line(f"{count:>9,} {name}")


@pytest.fixture
def machine(monkeypatch):
    """Boots, small files, and watermarks whose every store is a step."""
    prepare_machine(monkeypatch)


@pytest.fixture
def tally(request):
    """Counts of what was tried, for the summary."""
    counts = Counter()
    yield counts
    request.node.user_properties.append(("crash tally", dict(counts)))
