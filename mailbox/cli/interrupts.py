"""
What an interrupt does, be it typed by somebody or sent to a whole group of processes.

The program ends by it, without a word.  Where it was started with interrupts
ignored, as a shell starts what is to outlive it, that stays so.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn


def at_once() -> None:
    """From here on there is nothing to tidy up: what a store was doing is as safe as from a kill."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def tidily() -> Iterator[None]:
    """What has begun is tidied up, once; who interrupts that too does not want to wait for it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        at_once()


def _interrupt(*_: object) -> NoReturn:
    at_once()
    raise KeyboardInterrupt
