"""What a sum adds to a loss where the loss alone is differentiated: would it train anybody?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.autograd.graph import GradientEdge
from torch.overrides import TorchFunctionMode

from graphdoc.capture import node_stacks, stacks
from graphdoc.capture.facts import grad_fn_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.parts import Part
from graphdoc.capture.roots import tensor_roots
from graphdoc.capture.summands import SUMS, terms_of, top_of

if TYPE_CHECKING:
    from graphdoc.capture.whatif.window import Target

MOST_SUMS = 200
ALIKE = 0.999
"""The cosine from which on a gradient is that of a weight decay."""
LEAST = 1e-6
"""The part of the loss's gradient from which on another one counts."""


class BesideLoss(TorchFunctionMode):
    """A watch of one step. It tells the sums that hold a loss and go into no call: ``stack`` is the sum, ``call``
    differentiates the loss, ``parameters`` are the positions of those that its other terms, differentiated by
    themselves, would train; these are ``weighed`` where one has a factor."""

    def __init__(self, target: Target, apart: list[int], cwd: str) -> None:
        super().__init__()
        self._torch, self._parameters, self._cwd = target.torch, target.parameters, cwd
        self._apart = set(apart)
        """Positions of those that the program itself writes to."""
        groups = [g for o in (target.optimizer, *target.others) for g in o.param_groups if g.get("weight_decay")]
        self._decays = {id(p) for g in groups for p in g["params"]}
        self._sums: list[Any] = []
        self._calls: dict[Any, tuple[Any, set[int]]] = {}
        """By what was differentiated: where, and which leaves that reaches."""
        self._through: set[Any] = set()
        self._left: dict[Any, tuple[Any, list[Any], Any]] = {}
        """By sum: the loss that it holds, its other terms, what they give."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        node = grad_fn_of(result) if type(result) is self._torch.Tensor else None
        if type(node).__name__ in SUMS and result.numel() == 1 and len(self._sums) < MOST_SUMS:
            self._sums.append(node)
        return result

    def began(self, outputs: Any) -> None:
        """A backward call begins: what it frees is differentiated now."""
        roots = [n for n in tensor_roots(outputs) if n is not None]
        at = [dict(vars(f)) for f in frames_of(stacks.stack_here(3), self._cwd)]
        self._calls.update({n: (at, Part(n).leaves) for n in roots})
        self._through.update(top_of(roots))
        self._differentiate()

    def _differentiate(self) -> None:
        """Of sums in each other the outermost."""
        inner = set[Any]()
        for node in reversed(self._sums):
            top = top_of([node]) if node not in inner else []
            loss = next((n for n in top if n in self._calls and n is not node), None)
            if loss is not None and node not in self._left:
                left = [t for t in terms_of([node]) if t not in self._through]
                self._left[node] = loss, left, self._given(node, left)
            inner.update(top)

    def _given(self, node: Any, terms: list[Any]) -> Any:
        """What these terms of a sum give to each parameter, and whether one of them is weighed."""
        edges, grad = [GradientEdge(t, 0) for t in terms], self._torch.autograd.grad
        try:
            factors = grad([GradientEdge(node, 0)], edges, retain_graph=True)
            gradients = grad(edges, self._parameters, factors, retain_graph=True, allow_unused=True)
        except RuntimeError:
            return None  # its graph has been freed, or lets nobody in (a reentrant checkpoint)
        return gradients, any(abs(float(f)) != 1.0 for f in factors)

    def told(self) -> list[dict[str, Any]]:
        """The sums."""
        self._differentiate()
        known = self._through.union(*(set(top_of([node])) - {node} for node in self._left))
        found = []
        for node, (loss, left, given) in self._left.items():
            rest = [t for t in left if t not in self._through]
            given = given if rest == left else self._given(node, rest)
            kept, (call, _) = node_stacks.stack_of(node), self._calls[loss]
            learning = self._learning(call, given[0]) if rest and given and node not in known else []
            if learning and kept is not None:
                stack = [dict(vars(f)) for f in frames_of(kept, self._cwd)]
                found.append({"stack": stack, "call": call, "parameters": learning, "weighed": given[1]})
        return found

    def _learning(self, call: Any, gradients: Any) -> list[int]:
        """The positions of those that such a gradient would train: none where an optimizer's own weight decay has it,
        or where a call elsewhere may stand for it."""
        given = {i: g for i, g in enumerate(gradients) if g is not None and i not in self._apart and bool(g.any())}
        elsewhere = {i for at, leaves in self._calls.values() if at != call for i in leaves}
        if any(id(self._parameters[i]) in elsewhere for i in given) or self._is_decay(given):
            return []
        pairs = ((g, self._parameters[i].grad) for i, g in given.items())
        counts = any(b is None or float(g.norm()) > LEAST * float(b.norm()) for g, b in pairs)
        return [*given] if counts else []

    def _is_decay(self, given: dict[int, Any]) -> bool:
        cosine = self._torch.nn.functional.cosine_similarity
        pairs = [(self._parameters[i], g) for i, g in given.items()]
        return all(id(p) in self._decays and float(cosine(p.flatten(), g.flatten(), 0)) > ALIKE for p, g in pairs)
