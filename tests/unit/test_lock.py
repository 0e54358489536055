"""The locks on files."""

import os
import stat
import threading

import pytest
from unit import processes

from fencepost.journal.errors import JournalBusy
from fencepost.journal.lock import FileLock, describe_process, network_filesystem

HOLD = """
import sys
from fencepost.journal.lock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire(10_000, lambda: "nobody")
print("held", flush=True)
sys.stdin.read()
"""
FORK = """
import os, sys
from fencepost.journal.lock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire(1_000, lambda: "nobody")
r, w = os.pipe()
child = os.fork()
if child == 0:
    os.read(r, 1)  # live on while the parent lets go
    os._exit(0)
lock.release()
other = FileLock(sys.argv[1])
print(other.try_acquire())
os.write(w, b"x")
os.waitpid(child, 0)
"""
FORK_AND_DIE = """
import os, sys
from fencepost.journal.lock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire(1_000, lambda: "nobody")
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def holder(path):
    """Another process, which holds the lock."""
    process = processes.start(HOLD, path)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_one_process_at_a_time(path, holder):
    """While another process holds it, it cannot be taken; once that has let go, it can."""
    lock = FileLock(str(path))
    assert not lock.try_acquire()

    holder.communicate()
    lock.acquire(10_000, lambda: "the other one")

    lock.release()
    lock.close()


def test_a_killed_process_lets_go(path, holder):
    """A process that dies in the middle locks nobody out."""
    holder.kill()
    holder.wait()
    lock = FileLock(str(path))

    assert lock.try_acquire()
    lock.close()


def test_waiting_ends(path, holder):
    """The error says how long, and who it was."""
    lock = FileLock(str(path))

    with pytest.raises(JournalBusy) as caught:
        lock.acquire(50, lambda: describe_process(holder.pid))

    assert (str(path), 50) == (caught.value.path, caught.value.waited_ms)
    assert f"process {holder.pid}" in caught.value.holder
    lock.close()


def test_a_failed_wait_leaves_it_free(path, holder):
    """Whoever gave up does not hold anything."""
    lock = FileLock(str(path))
    with pytest.raises(JournalBusy):
        lock.acquire(1, lambda: "the other one")
    holder.communicate()

    assert lock.try_acquire()
    lock.close()


def test_one_thread_at_a_time(path):
    """Threads that share it never hold it together."""
    lock, inside, most = FileLock(str(path)), [], []
    go = threading.Barrier(4)

    def work():
        go.wait()
        for _ in range(25):
            with lock.held(10_000, lambda: "a thread"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ([1] * 100, True) == (most, lock.try_acquire())
    lock.close()


def test_two_locks_of_one_process_keep_each_other_out(path):
    """It is the file that is locked, and not the object."""
    one, other = FileLock(str(path)), FileLock(str(path))

    assert one.try_acquire()
    assert not other.try_acquire()
    one.release()
    assert other.try_acquire()
    one.close()
    other.close()


def test_another_thread_is_named(path):
    """Who holds it in this process is not asked of the system."""
    lock = FileLock(str(path))
    lock.acquire(1, lambda: "nobody")
    said = []

    def wait():
        with pytest.raises(JournalBusy) as caught:
            lock.acquire(1, lambda: "nobody")
        said.append(caught.value.holder)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()

    assert ["another thread of this process"] == said
    lock.close()


def test_a_forked_child_does_not_keep_it(path):
    """The child drops its copy of the file, so that what its parent lets go is free."""
    assert processes.run(FORK, path) == "True"


def test_a_child_that_outlives_the_holder_does_not_keep_it(path):
    """The parent dies without letting go, its child lives on, and the lock is free."""
    process = processes.start(FORK_AND_DIE, path)
    assert process.stdout.readline() == "child\n"
    process.wait(processes.PATIENCE_S)
    lock = FileLock(str(path))

    assert lock.try_acquire()
    lock.close()
    process.communicate()


def test_no_program_that_is_started_inherits_it(path):
    """The file is closed when another program is executed."""
    lock = FileLock(str(path))

    assert not os.get_inheritable(lock._fd)
    lock.close()


def test_a_replaced_file_is_noticed(path):
    """What was locked under the name before locks nobody out, so it is not taken for the lock."""
    lock = FileLock(str(path))
    path.rename(path.with_name("old"))
    other = FileLock(str(path))
    assert other.try_acquire()

    assert not lock.try_acquire()
    other.release()
    lock.acquire(1_000, lambda: "nobody")
    assert not other.try_acquire()
    lock.close()
    other.close()


def test_a_removed_file_is_made_again(path):
    """Against the rules, somebody removed it; the next holder holds one that is there."""
    lock = FileLock(str(path))
    path.unlink()
    lock.acquire(1_000, lambda: "nobody")

    assert path.exists()
    lock.close()


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_the_file_is_private(path, umask):
    """Whatever the umask."""
    before = os.umask(umask)
    try:
        FileLock(str(path)).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_closing_keeps_the_file(path):
    """It is never removed, because somebody else may be waiting for it."""
    FileLock(str(path)).close()

    assert path.exists()


def test_a_process_is_described_as_far_as_can_be_told():
    """By its number and its words, or by its number, or not at all."""
    assert f"process {os.getpid()} (" in describe_process(os.getpid())
    assert describe_process(0) == "a process that is not known"
    assert describe_process(2**22 + 1) == f"process {2**22 + 1}"


def test_this_file_system_is_local(tmp_path):
    """A temporary folder is not warned about."""
    assert network_filesystem(str(tmp_path)) is None
