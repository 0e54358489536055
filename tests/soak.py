"""
The searches and the races again and again, each time with another seed, until the time is up.

    tox -e soak                 # 30 minutes
    tox -e soak -- --minutes 600

What is found is shown by pytest, with the seed to try it again with.
"""

import argparse
import os
import random
import subprocess
import sys
import time

WHAT = (
    "tests/property/test_machine.py",
    "tests/property/test_documents.py",
    "tests/property/test_views.py",
    "tests/property/test_infer.py",
    "tests/crash/test_histories.py",
    "tests/crash/test_processes.py",
)
#: A round that takes longer hangs.
ROUND_S = 3_600


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        seed = str(random.randrange(2**32))
        tell(f"--- round {rounds}, seed {seed}")
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-n", "2", f"--hypothesis-seed={seed}", *WHAT]
        if subprocess.run(
            command, env=os.environ | {"FENCEPOST_CRASH": "all"}, timeout=ROUND_S, check=False
        ).returncode:
            sys.exit(f"round {rounds} failed: tox -e soak, or pytest with --hypothesis-seed={seed}")
    tell(f"{rounds} rounds, nothing found")


def tell(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
