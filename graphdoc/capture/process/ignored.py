"""Our own failures inside of the user's process, and the program's exceptions that nothing can catch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.process.hooks import look_before
from graphdoc.capture.process.marks import leave, process_name
from graphdoc.capture.process.ours import is_ours

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


def watch_ignored(witness: Witness) -> Callable[[], None]:
    """Tell the witness of each exception that Python prints and ignores (``sys.unraisablehook``); returns the undoing.

    Those that come out of the engine have been examined by then; of others only a RuntimeError is looked at, which
    is what PyTorch raises, and only where nothing else has failed.
    """

    def look(args: Any) -> None:
        if isinstance(args.exc_value, Exception):
            witness.ignore(args.exc_value, _where(args.object, str(args.err_msg)))

    return look_before(sys, "unraisablehook", look, witness.trouble)


def mark_late(out: str) -> None:
    """Leave a mark where an error of autograd's is ignored from here on: Python is being taken down.

    Modules lose what they hold meanwhile and nothing can be imported (Python/pylifecycle.c, ``finalize_modules``), so
    nothing is examined, and what is needed is bound here.
    """
    ours, mark = is_ours, leave
    look_before(sys, "unraisablehook", lambda args: ours(args.exc_value) and mark(out, "late"))


def _where(found: Any, message: str) -> str:
    """The function out of which it came, or its type: asking more would run the user's code."""
    if isinstance(found, FunctionType | MethodType):
        return found.__qualname__
    if found is None:  # from Python 3.13 an exit callback is named in the message alone
        return "an exit callback" if "atexit" in message else "a callback"
    return type(found).__qualname__


# Our own failures inside of the user's process: a line for the parent, and nothing else.


def note_trouble(out: str, error: BaseException) -> None:
    """One line for the parent; the script's own result stands whatever happens to us."""
    import traceback

    try:
        where = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
        with open(os.path.join(out, f"trouble-{process_name()}.txt"), "a", encoding="utf-8") as f:
            f.write(f"{type(error).__name__}: {error}{place}".replace("\n", " ")[:500] + "\n")
        if os.environ.get("GRAPHDOC_DEBUG"):
            traceback.print_exception(error)
    except Exception:
        pass
