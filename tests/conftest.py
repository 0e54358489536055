"""
Where does my test go?

- It holds for all inputs: `tests/property/`.  It draws its inputs with Hypothesis and checks a law.
- It was promised to somebody (a shell, an agent, another language, an old file): `tests/contract/`.
  It drives the installed program or reads a published file, and imports nothing of the product.
- A process, a disk or a machine fails in it: `tests/crash/`.
- It shows one case of one module: `tests/unit/`, in `test_<module>.py`.

One promise a test, and its docstring is the promise.  A test that would sleep waits for a thing that happened
instead; a test that needs the time hands in a clock.

Hypothesis tries as many inputs as the profile in $FENCEPOST_HYPOTHESIS_PROFILE says: `dev` (the default), `ci` (of
`tox -e property`) or `soak`.

A test that this machine cannot run is skipped, unless $FENCEPOST_REQUIRE is `all` or has the name of what is lacking
(`synapse,pi`): then it fails.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from postgres import cluster  # noqa: F401 - a fixture

# Real files and a shared machine: how long one example takes says nothing.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

settings.register_profile("dev", max_examples=25, stateful_step_count=20, **_COMMON)
settings.register_profile("ci", max_examples=60, stateful_step_count=40, **_COMMON)
settings.register_profile("soak", max_examples=5_000, stateful_step_count=100, **_COMMON)
settings.load_profile(os.environ.get("FENCEPOST_HYPOTHESIS_PROFILE", "dev"))

# A shell has what it starts in the background ignore interrupts, and that would be inherited by whatever a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cannot():
    """Skip, saying what the machine lacks; or fail where everything is required."""

    def skip(lacking, name="all"):
        required = os.environ.get("FENCEPOST_REQUIRE", "")
        if {"all", name} & set(required.split(",")):
            pytest.fail(f"FENCEPOST_REQUIRE={required}, but {lacking}")
        pytest.skip(lacking)

    return skip
