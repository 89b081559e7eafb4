"""``Variable(t)``: a detached ``t`` since tensors are variables themselves, made where no mode sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphdoc.capture.hooks import hook_in

NAME = "Variable"


def watch_variables(torch: Any, note: Callable[[str, Any, Any, Any], None]) -> Callable[[], None]:
    """Call ``note(name, args, kwargs, result)`` for each; returns what ends that. For second runs alone.

    What is called is a class, so the hook stands in that class's own class.
    """
    variable = torch.autograd.Variable
    make = type.__call__

    def called(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = make(cls, *args, **kwargs)
        if cls is variable:
            note(NAME, args, kwargs, result)
        return result

    return hook_in(type(variable), "__call__", called)
