"""
What every side of a comparison has; needs nothing installed.
"""

import time
from pathlib import Path


class Subject:
    """What every side has, whatever it can do besides."""

    def ready(self, work, count):
        """Called before each round, outside the timed part, with what is to come."""

    def latencies(self, count):
        """How long each of so many sends took."""
        took = []
        for _ in range(count):
            began = time.perf_counter()
            self.send(1)
            took.append(time.perf_counter() - began)
        return took

    def peak(self):
        """The most memory this process ever had, in bytes."""
        # Not from getrusage: on Linux a child begins with the peak of the process that started it.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise OSError("this system does not tell the peak of a process")

    def close(self):
        pass
