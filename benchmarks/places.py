"""
Where a run happens: its folders, its sizes, and the other interpreter that the reference needs.
"""

import itertools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

#: The version that the results speak of.
REFERENCE = "neosian==1.12.2"
_REFERENCE_NEEDS = (3, 12)
_INSTALL_S = 600


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the fields are counts, and rounds of each row."""

    stored: int = 1_000_000
    few: int = 1_000
    searched: int = 100_000
    reference_stored: int = 1_000
    lived: int = 20_000
    sends: int = 40
    turns: int = 30
    batches: int = 24
    processes: int = 16
    listings: int = 30
    colds: int = 25
    verifies: int = 15
    rebuilds: int = 3
    memories: int = 5
    besides: int = 9
    sends_beside: int = 200


#: To try the scripts.  What comes out means little.
QUICK = Sizes(
    stored=20_000,
    searched=10_000,
    reference_stored=200,
    lived=1_000,
    sends=3,
    turns=3,
    batches=2,
    processes=2,
    listings=3,
    colds=3,
    verifies=3,
    rebuilds=2,
    memories=2,
    besides=2,
)


@dataclass
class Place:
    """
    Where a run happens.

    Attributes:
        cache: Keeps the big stores, and the reference's environment.
        scratch: For this run only; on the same file system.
        reference: The reference's interpreter; None where there is none, and then `why_not`.
    """

    sizes: Sizes
    cache: Path
    scratch: Path
    reference: Path | None = None
    why_not: str = ""
    _numbers: itertools.count = field(default_factory=itertools.count)

    def new(self, name):
        """The name of a folder that is not there yet."""
        return self.scratch / f"{name}-{next(self._numbers)}"


def find_reference(cache):
    """
    An interpreter that has the reference, in an environment made on demand.

    Returns:
        The interpreter, or None and the reason.
    """
    home = cache / "reference" / REFERENCE
    python = home / "bin" / "python"
    if python.exists() and _works(python, "import neosian"):
        return python, ""
    base = _interpreter()
    if base is None:
        wanted = ".".join(map(str, _REFERENCE_NEEDS))
        return None, f"there is no Python {wanted} or newer on PATH or in ~/.pyenv/versions"
    shutil.rmtree(home, ignore_errors=True)
    print(f"making an environment for {REFERENCE}", file=sys.stderr)
    try:
        subprocess.run([base, "-m", "venv", home], check=True, capture_output=True, timeout=_INSTALL_S)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REFERENCE]
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=_INSTALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(home, ignore_errors=True)
        lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
        return None, f"{REFERENCE} could not be installed: {lines[-1]}"
    return python, ""


def _interpreter():
    """The first interpreter that is new enough and does start; a shim may stand for a version that is not there."""
    names = ["python3.12", "python3.13", "python3.14", "python3"]
    on_path = [Path(found) for found in map(shutil.which, names) if found]
    of_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"))
    test = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {_REFERENCE_NEEDS})"
    candidates = [Path(sys.executable), *on_path, *of_pyenv]
    return next((candidate for candidate in candidates if _works(candidate, test)), None)


def _works(python, code):
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def file_system(folder):
    """The type of the file system that a folder is on."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    folder = os.path.realpath(folder)
    fitting = [fields for fields in mounts if Path(folder).is_relative_to(fields[1])]
    return max(fitting, key=lambda fields: len(fields[1]))[2] if fitting else "unknown"
