"""One call into the autograd engine, as it is kept in the engine function's own frame: it lives and dies with that."""

from __future__ import annotations

from types import CodeType, FrameType, TracebackType
from typing import Any

from graphdoc.capture.events.cut_records import Place, Switches
from graphdoc.capture.events.journal import Noted
from graphdoc.capture.places.stacks import Stack

Call = list[Any]
"""The journal's note of it, what backward was called with, the engine's further arguments; and a ``Glimpse`` once it
has failed. A list, because one is made for every call."""


class Glimpse:
    """What is known only at the moment of the failure and costs nothing to keep. No tensor, no node."""

    __slots__ = ("count", "failing", "name", "recording", "switches")

    def __init__(self, torch: Any, switches: Switches, count: int, failing: Stack | None, name: str) -> None:
        self.count = count
        """Events of the journal until then."""
        self.failing = failing
        self.name = name
        self.switches: dict[str, Place] = dict(switches.last)
        self.recording = bool(torch.is_grad_enabled() and not torch.is_inference_mode_enabled())


def noted_of(call: Call) -> Noted:
    """The journal's note of a call."""
    return call[0]  # type: ignore[no-any-return]


def came_through(trace: TracebackType | None, code: CodeType | None) -> bool:
    """Whether an exception with this traceback has come through a frame of ``code``."""
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return True
        trace = trace.tb_next
    return False


def failed_call(trace: TracebackType | None, code: CodeType | None, name: str) -> tuple[Call, FrameType] | None:
    """The innermost call that an exception has come through and who made it, out of the exception's own traceback.

    Nothing else remembers it, so an exception that is gone can never be taken for another one: identities are used
    again, frames of a living traceback are not.

    Args:
        code: of the engine's function.
        name: the local name under which it keeps the call.
    """
    found: tuple[Call, FrameType] | None = None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is code and frame.f_back is not None:
            call = frame.f_locals.get(name)
            # The outer call of one that has failed by the same exception has no glimpse.
            if isinstance(call, list) and len(call) > 3:
                found = call, frame.f_back
        trace = trace.tb_next
    return found


def raised_again(trace: TracebackType | None) -> bool:
    """Whether an exception comes from a ``raise`` statement rather than from a call of C++ or of Python itself."""
    import dis

    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code, last = trace.tb_frame.f_code, trace.tb_lasti
    return 0 <= last < len(code.co_code) and dis.opname[code.co_code[last]] in ("RAISE_VARARGS", "RERAISE")
