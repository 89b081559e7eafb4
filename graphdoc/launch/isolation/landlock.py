"""Signals that stay within a run which has no process numbers of its own, kept there by the kernel (landlock(7)).

Loaded by the keeper: standard library only, Linux only.
"""

from __future__ import annotations

import ctypes
import os

# From asm-generic/unistd.h, linux/landlock.h and linux/prctl.h.
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_ASK_VERSION, _SCOPE_SIGNAL = 1, 2
_NO_NEW_PRIVS = 38
_WITH_SCOPES = 6
"""The version that knows scopes (Linux 6.12)."""

_libc = ctypes.CDLL(None, use_errno=True)


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
