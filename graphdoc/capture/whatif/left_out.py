"""Where what parameters compute is left lying: the last results made of them, of which no loss is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode

from graphdoc.capture import stacks
from graphdoc.capture.births import tensors_in
from graphdoc.capture.frames import frames_of

if TYPE_CHECKING:
    from graphdoc.capture.whatif.window import Target

MOST = 4
"""Results that are told."""


class LeftOut(TorchFunctionMode):
    """A watch of one step: each result with a graph that is made of these parameters, until another is made of it.

    What is read as numbers may be meant for nothing else; a single number with a graph is most likely a loss, and who
    logs it does not train by it.
    """

    def __init__(self, target: Target, chosen: set[int], cwd: str) -> None:
        super().__init__()
        self._leaves = {id(target.parameters[i]) for i in chosen}
        self._cwd = cwd
        self._made: dict[int, Any] = {}
        """All such results; what is kept cannot give its id to another."""
        self._last: dict[int, stacks.Stack] = {}
        self._used: set[int] = set()
        self._read: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        ids = {id(t) for t in tensors_in((args, kwargs or {}))}
        given = ids & self._made.keys()  # any other tensor may end, and give its id to a result that nothing reads
        name = getattr(func, "__name__", "")
        if name in ("backward", "grad"):
            self._used |= given
        elif name != "__get__":
            self._read |= given
        if given or ids & self._leaves:
            for made in tensors_in(result):
                if made.grad_fn is not None and id(made) not in self._made:
                    for ident in given:
                        self._last.pop(ident, None)
                    self._made[id(made)] = made
                    self._last[id(made)] = stacks.stack_here(2)
        return result

    def began(self, _outputs: Any) -> None:
        """A backward call begins."""

    def told(self) -> list[list[dict[str, Any]]]:
        """The stacks of those of which nothing was made, as frames."""
        left = [
            raw
            for ident, raw in self._last.items()
            if ident not in self._used and (ident not in self._read or self._made[ident].numel() == 1)
        ]
        return [[dict(vars(f)) for f in frames_of(raw, self._cwd)] for raw in left[:MOST]]
