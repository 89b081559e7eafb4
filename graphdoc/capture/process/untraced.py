"""Keeps torch.compile out of our own functions, without importing any of it.

While a compiled function runs, Dynamo looks at each Python function that is called outside of its graphs, also those
that PyTorch's C++ calls: our hooks would be compiled, with what they call. A mark on the code object itself, which
costs nothing where no function is compiled, tells it to run them, and all that they call, as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from graphdoc.capture.places.code_places import OURS

_marked: set[str] = set()
"""Names of modules: a suite is observed test by test."""


def keep_untraced(torch: Any) -> None:
    """Mark each function of our modules that are loaded; what is loaded later is called by one of these."""
    mark = _mark(torch)
    if mark is None:
        return
    for name in list(sys.modules):  # the names alone: a look at a module writes to it, which costs a fork a copied page
        if name.startswith("graphdoc.") and name not in _marked:
            _marked.add(name)
            for code in _codes(vars(sys.modules[name]).values(), name):
                mark(code)


def _mark(torch: Any) -> Callable[[CodeType], Any] | None:
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    set_strategy = getattr(frames, "set_code_exec_strategy", None)
    if set_strategy is None:
        return getattr(frames, "skip_code", None)  # before PyTorch 2.7; what the function calls is looked at
    skip = frames._FrameAction.SKIP  # type: ignore[union-attr]
    strategy = frames._FrameExecStrategy(skip, skip)  # type: ignore[union-attr]
    return lambda code: set_strategy(code, strategy)


def _codes(values: Iterable[Any], module: str) -> Iterator[CodeType]:
    """The code of those functions and methods that the module defines, and of the functions inside them."""
    for value in values:
        if isinstance(value, CodeType):
            if value.co_filename.startswith(OURS):  # a module may keep code of PyTorch's own to know it again
                yield value
                yield from _codes(value.co_consts, module)
        elif isinstance(value, FunctionType):  # one that stands in for PyTorch's own calls itself a function of torch
            yield from _codes([value.__code__], module)
        elif isinstance(value, classmethod | staticmethod):
            yield from _codes([value.__func__], module)
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes(list(vars(value).values()), module)
        elif isinstance(value, property):
            yield from _codes([value.fget, value.fset], module)
