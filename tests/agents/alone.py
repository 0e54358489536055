"""
Run a command where nothing but this machine's own loopback can be reached.

Real clients would call home; in a network namespace of its own the kernel sees to it that they cannot.  Where the
system allows none, that is said, and the command runs all the same: what the clients are told keeps them from it too.

    python tests/agents/alone.py pytest tests/agents
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_FLAGS, _UP, _RUNNING = 0x8914, 0x1, 0x40


def alone():
    """Leave the network; why not, where that is not allowed."""
    if sys.platform != "linux":
        return "only Linux has them"
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_NETWORK):
        if libc.unshare(_NEW_USER | _NEW_NETWORK):
            return os.strerror(ctypes.get_errno())
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP | _RUNNING))
    return None


if __name__ == "__main__":
    why = alone()
    cut_off = "for this run nothing but this machine itself can be reached, so that no client calls home\n"
    sys.stderr.write(f"no network namespace here: {why}\n" if why else cut_off)
    os.execvp(sys.argv[1], sys.argv[1:])
