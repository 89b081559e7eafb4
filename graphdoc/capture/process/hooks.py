"""A function of our own in the place of one of Python's hooks, as long as nobody has put another one there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def hook_in(module: Any, name: str, hook: Callable[..., Any]) -> Callable[[], None]:
    """Put the hook in the place of ``module.name``; returns what puts the old one back, where ours still stands.

    Where Python keeps its own hook under another name too (``sys.__excepthook__``), and it is the one that stood there,
    the program finds ours under both: to compare them is how one asks whether anybody has put a hook in.
    """
    told = getattr(module, name)
    names = [n for n in (name, f"__{name}__") if getattr(module, n, None) is told]
    look_alike(hook, told)

    def undo() -> None:
        for n in names:
            if getattr(module, n, None) is hook:
                setattr(module, n, told)

    for n in names:
        setattr(module, n, hook)
    return undo


def look_before(
    module: Any, name: str, look: Callable[..., Any], trouble: Callable[[Exception], Any] = bool
) -> Callable[[], None]:
    """Let ``look`` be told of what Python tells its hook ``module.name`` first; returns what undoes it."""
    told = getattr(module, name)

    def hook(*args: Any) -> None:
        try:
            look(*args)
        except Exception as e:
            trouble(e)
        finally:
            told(*args)

    return hook_in(module, name, hook)


def stand_before_engine(torch: Any, run: Callable[..., Any]) -> None:
    """Let ``run(engine, outputs, args, kwargs)`` take the place of each call into the engine, for good: in runs that
    graphdoc starts by itself."""
    engine = torch.autograd.graph._engine_run_backward

    def engine_run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        return run(engine, t_outputs, args, kwargs)

    torch.autograd.graph._engine_run_backward = engine_run_backward
    torch.autograd._engine_run_backward = engine_run_backward


def look_alike(ours: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """Give a function of ours the name, module, documentation and signature of the one in whose place it stands."""
    wraps(theirs)(ours)
    for name in ("__annotations__", "__kwdefaults__") if not hasattr(theirs, "__code__") else ():
        setattr(ours, name, {} if name == "__annotations__" else None)
    return ours
