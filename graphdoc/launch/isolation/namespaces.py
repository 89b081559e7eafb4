"""Takes this process out of the namespaces of the user's, and the powers from what it starts; its signals, its network.

Loaded by the keeper, in a process that was started for it alone: standard library only, and Linux only. It needs no
privilege where the system lets a user have namespaces (user_namespaces(7), mount_namespaces(7)).
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable

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


# Signals that stay within a run which has no process numbers of its own, kept there by the kernel (landlock(7)).

# From asm-generic/unistd.h and linux/landlock.h.
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_ASK_VERSION, _SCOPE_SIGNAL = 1, 2
_WITH_SCOPES = 6
"""The version that knows scopes (Linux 6.12)."""


def can_hold_signals() -> bool:
    """Whether this kernel can do that."""
    return int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)) >= _WITH_SCOPES


def hold_signals() -> None:
    """Let no process that comes of this one signal any other; nothing where the kernel cannot do that.

    Raises:
        OSError: the kernel can, and refuses.
    """
    if not can_hold_signals():
        return
    rules = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_SIGNAL)
    handle = _libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    held = handle >= 0 and not _libc.prctl(_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0)
    if not held or _libc.syscall(_RESTRICT_SELF, handle, 0):
        raise OSError(ctypes.get_errno(), "landlock")
    os.close(handle)


# A network of its own, with the loopback interface alone.

# From linux/sockios.h and linux/if.h.
_GET_CONF, _GET_FLAGS, _SET_FLAGS, _SET_ADDRESS, _UP = 0x8912, 0x8913, 0x8914, 0x8916, 1
_ENTRY = 40


def addresses() -> list[str]:
    """The IPv4 addresses of this machine's interfaces: programs meet at them by the machine's own name."""
    buffer = array.array("B", bytes(_ENTRY * 128))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
            size = struct.unpack("iP", fcntl.ioctl(s, _GET_CONF, request))[0]
    except OSError:
        return []
    data = buffer.tobytes()[:size]
    found = [socket.inet_ntoa(data[i + 20 : i + 24]) for i in range(0, len(data), _ENTRY)]
    return [a for a in dict.fromkeys(found) if not a.startswith("127.")]


def raise_loopback(own: list[str]) -> None:
    """Bring ``lo`` up and let the machine's own addresses mean it.

    Raises:
        OSError: the interface cannot be brought up.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(s, _GET_FLAGS, request))[1]
        fcntl.ioctl(s, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
        for number, address in enumerate(own[:16], 1):
            name = f"lo:{number}".encode()
            try:
                fcntl.ioctl(
                    s, _SET_ADDRESS, struct.pack("16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton(address))
                )
            except OSError:
                continue
