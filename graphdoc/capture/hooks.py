"""A function of our own in the place of one of Python's hooks, as long as nobody has put another one there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def hook_in(module: Any, name: str, hook: Callable[..., Any]) -> Callable[[], None]:
    """Put the hook in the place of ``module.name``; returns what puts the old one back, where ours still stands."""
    told = getattr(module, name)

    def undo() -> None:
        if getattr(module, name) is hook:
            setattr(module, name, told)

    setattr(module, name, hook)
    return undo
