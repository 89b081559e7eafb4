"""Takes this process out of the namespaces of the user's, and the powers from what it starts.

Loaded by the keeper, in a process that was started for it alone: standard library only, and Linux only. It needs no
privilege where the system lets a user have namespaces (user_namespaces(7), mount_namespaces(7)).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from network import addresses  # type: ignore[import-not-found]

# From linux/sched.h and linux/prctl.h.
NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_CAPBSET_DROP, _NO_NEW_PRIVS, _DUMPABLE = 24, 38, 4
_CAPABILITY_VERSION = 0x20080522  # linux/capability.h, version 3: two words of 32 bits for each set

_KEPT_POWERS = frozenset((0, 1, 3, 4, 5, 6, 7, 10, 14, 15, 23, 24))
"""What root keeps (capabilities(7)): owner and permission bits of files, signals, identities, low ports, memory locks,
priorities. Not kept is all that mounts, reaches the network's set-up or other processes, or the machine."""


class Refused(Exception):
    """The system does not allow what is needed; the text says what."""


_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """A system call by its function in the C library.

    Raises:
        OSError: it failed.
    """
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def prctl(option: int, value: int) -> None:
    """prctl(2) with one value.

    Raises:
        OSError: the kernel refuses.
    """
    call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def separate(processes: bool) -> list[str]:
    """Leave the namespaces of the user's, and map this user to himself (root: everybody to himself).

    Returns the machine's own addresses as they were outside. ``processes``: children get their own process numbers
    too, and all of them end with the first one.

    Raises:
        Refused: the system does not allow it.
    """
    own: list[str] = addresses()
    user, group = os.geteuid(), os.getegid()
    helper = _mapping_helper() if user == 0 else None
    try:
        call("unshare", NEWUSER | NEWNS | NEWIPC | NEWNET | (NEWPID if processes else 0))
        prctl(_DUMPABLE, 1)  # else /proc/self belongs to root, who is nobody here
        if helper is not None:
            helper()
        else:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
    except OSError as e:
        raise Refused(f"no namespaces for this user ({e.strerror})") from e
    return own


def _mapping_helper() -> Callable[[], None]:
    """Root's files may be anybody's; only from outside may a namespace be given all users. Returns what asks for it."""
    ranges = {kind: _identity(f"/proc/self/{kind}_map") for kind in ("uid", "gid")}
    parent = os.getpid()
    asked, ask = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(ask)
            if os.read(asked, 1):
                for kind, text in ranges.items():
                    _write(f"/proc/{parent}/{kind}_map", text)
                os.write(tell, b"1")
                status = 0
        finally:
            os._exit(status)
    os.close(asked)
    os.close(tell)

    def map_everybody() -> None:
        os.write(ask, b"1")
        os.close(ask)
        done = os.read(told, 1)
        os.close(told)
        os.waitpid(child, 0)
        if not done:
            raise PermissionError(1, "users cannot be mapped")

    return map_everybody


def _identity(path: str) -> str:
    with open(path) as stream:
        lines = [line.split() for line in stream]
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in lines)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def give_up_powers() -> None:
    """Nothing that is started from here can undo the layers: no capability that mounts, and none to be won back."""
    if os.geteuid() == 0:
        for number in range(64):
            if number not in _KEPT_POWERS:
                try:
                    prctl(_CAPBSET_DROP, number)
                except OSError:
                    break  # beyond the last one that this kernel knows
    prctl(_NO_NEW_PRIVS, 1)


def drop_powers() -> None:
    """Give up now what a new program would not have: for a process that goes on without starting one.

    Raises:
        OSError: the kernel refuses.
    """
    kept = sum(1 << number for number in _KEPT_POWERS) if os.geteuid() == 0 else 0
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable: first the lower words, then the upper ones.
    call("capset", header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))
