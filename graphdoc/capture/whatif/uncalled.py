"""Modules with a ``backward`` of their own, which autograd never calls: would it give another gradient?"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any

from graphdoc.capture import functions, stacks
from graphdoc.capture.code_places import is_user_file, shown_file
from graphdoc.capture.frames import frames_of

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSE = 0.01
"""So far apart two gradients may lie and be the same."""


def backward_of(cls: type) -> CodeType | None:
    """The code of the ``backward(self, gradient)`` that a class of the user's has; else None."""
    code = getattr(cls.__dict__.get("backward"), "__code__", None)
    return code if code is not None and code.co_argcount > 1 and is_user_file(code.co_filename) else None


def with_backward(torch: Any) -> list[type]:
    """The classes of modules that have one."""
    return [cls for cls in functions.subclasses(torch.nn.Module) if backward_of(cls) is not None]


class UncalledCheck:
    """A watch of one fork. Each such module that runs is asked for its gradient, beside that of autograd. One whose
    ``backward`` the program calls itself is never told, nor one that gives no tensor of its input's shape, or the same
    numbers as autograd."""

    def __init__(self, torch: Any, cwd: str) -> None:
        self._torch = torch
        self._cwd = cwd
        self._called: set[type] = set()
        self._found: dict[type, dict[str, Any]] = {}
        self._own: dict[type, Any] = {}

    def __enter__(self) -> UncalledCheck:
        every: list[Any] = with_backward(self._torch)
        for cls in every:
            self._own[cls] = cls.backward
            cls.backward = self._counting(cls, cls.backward)
        self._torch.nn.modules.module.register_module_forward_hook(self._passed)
        return self

    def __exit__(self, *exc: object) -> None:
        pass  # the fork ends with it

    def _counting(self, cls: type, backward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._called.add(cls)
            return backward(*args, **kwargs)

        return call

    def _passed(self, module: Any, args: Any, output: Any) -> None:
        cls, tensor = type(module), self._torch.Tensor
        given = [a for a in args if isinstance(a, tensor) and a.requires_grad]
        if cls not in self._own or cls in self._found or len(given) != 1 or not isinstance(output, tensor):
            return
        drawn = self._torch.get_rng_state()
        try:
            self._compare(cls, module, given[0], output)
        except Exception:
            return  # it takes something else than a gradient
        finally:
            self._torch.set_rng_state(drawn)

    def _compare(self, cls: type, module: Any, x: Any, output: Any) -> None:
        torch, backward = self._torch, self._own[cls]
        at = frames_of(stacks.stack_here(4), self._cwd)
        way = torch.randn(output.shape, generator=torch.Generator().manual_seed(7), dtype=output.dtype)
        (gradient,) = torch.autograd.grad(output, x, way, retain_graph=True)
        with torch.no_grad():
            own = backward(module, way.clone())
        if not isinstance(own, torch.Tensor) or own.shape != x.shape:
            return
        size = float(gradient.double().pow(2).sum())
        if size and float((own - gradient).double().norm()) > CLOSE * size**0.5:
            code: Any = backward.__code__
            whose = functions.described(cls, code, None, shown_file(code.co_filename, self._cwd), at)
            ratio = float((own.double() * gradient.double()).sum()) / size
            self._found[cls] = {**whose, "slope": 1.0, "gradient": ratio}

    def began(self, _outputs: Any) -> None:
        """A backward call begins."""

    def told(self) -> Any:
        """Those that would give another gradient, and were never called."""
        return [told for cls, told in self._found.items() if cls not in self._called]
