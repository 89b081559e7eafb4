"""What PyTorch keeps for each thread alone, its modes and the hooks of saved tensors, in the program's threads too.

Both are thread_local (c10/core/impl/TorchDispatchModeTLS.cpp, aten/src/ATen/SavedTensorHooks.cpp): a forward in another
thread, as ``DataParallel`` makes one for each device, is outside of what the main thread has entered. What that thread
makes would then look as if nothing had made it. The engine gives its own threads the state of the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from graphdoc.capture.process.hooks import hook_in

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

_Watch = TypeVar("_Watch", bound=AbstractContextManager[Any])
_entered: list[AbstractContextManager[Any]] = []
"""What was entered for good: the context of a generator ends when nobody holds it."""


def in_each_thread(witness: Witness, enter: Callable[[], AbstractContextManager[Any]]) -> None:
    """Enter a context in this thread, for good, and in each thread that is started from now on until that ends.

    For runs that graphdoc starts by itself alone: the stack of each such thread has one more function at its outer end.

    Args:
        enter: gives the context to enter; called in the thread that is to enter it, and maybe in several at a time.
    """
    _entered.append(enter())
    _entered[-1].__enter__()
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def within(thread: threading.Thread) -> None:
        with ExitStack() as entered:
            try:
                entered.enter_context(enter())
            except Exception as e:
                witness.trouble(e)
            begin(thread)

    witness.undoing.append(hook_in(threading.Thread, "_bootstrap_inner", within))


def watch_each_thread(watch: _Watch, witness: Witness) -> _Watch:
    """Enter one and the same mode in each of them; returns it."""
    in_each_thread(witness, lambda: watch)
    return watch
