"""Where a gradient ends that exists behind the loss: seen node by node while a backward call of a fork runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from graphdoc.capture import functions, node_stacks, stacks
from graphdoc.capture.code_places import shown_file
from graphdoc.capture.facts import storage_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.walk import DEEP, nodes_behind

if TYPE_CHECKING:
    from graphdoc.capture.whatif.window import Target

MOST_ENDS = 8


class Dying:
    """A watch of the backward calls between two steps. It tells the nodes at which the gradient of these parameters
    ends: ``ends`` where a node is given one and passes nothing on, ``cancels`` where what several pass on adds up to
    zero; and whether another leaf of the graph ``shares`` their memory. What is no more than the part ``least`` of what
    it is made of is rounding, and counts as zero."""

    def __init__(self, target: Target, chosen: set[int], cwd: str, least: float = 0.0) -> None:
        self._target = target
        self._leaves = {id(target.parameters[i]) for i in chosen}
        self._chosen = chosen
        self._cwd = cwd
        self._nodes: list[tuple[Any, list[Any]]] = []
        self._least = least
        self._given: dict[Any, float] = {}
        self._passed: dict[Any, list[float]] = {}
        self._sums: dict[Any, float] = {}
        """What nodes are given, if nothing of it cancels."""
        self._keep: list[Any] = []
        self.deep = False

    def __enter__(self) -> Dying:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def began(self, outputs: Any) -> None:
        """A backward call begins: look at each node behind its roots."""
        roots = [t.grad_fn for t in outputs if getattr(t, "grad_fn", None) is not None]
        for count, (node, following) in enumerate(nodes_behind(roots)):
            if count >= DEEP - 1:
                self.deep = True
                return
            self._nodes.append((node, [n for n, _ in following]))
            self._keep.append(node.register_prehook(self._before(node)))
            self._keep.append(node.register_hook(self._after(node, self._nodes[-1][1])))

    def _before(self, node: Any) -> Any:
        def hook(grads: Any) -> None:
            given = self._size(grads, self._sums.get(node, 0.0))
            self._given[node] = max(self._given.get(node, 0.0), *given, 0.0)

        return hook

    def _after(self, node: Any, following: list[Any]) -> Any:
        def hook(passed: Any, _given: Any) -> None:
            given = self._given.get(node, 0.0)
            self._passed[node] = self._size(passed, given) if given else [0.0] * len(passed)
            for n, size in zip(following, self._passed[node], strict=False):
                self._sums[n] = self._sums.get(n, 0.0) + size

        return hook

    def _size(self, gradients: Any, beside: float) -> list[float]:
        """The largest number of each; 0 for what is rounding beside that. What is no number is larger than any."""
        sizes = [_largest(g) if g is not None and g.numel() else 0.0 for g in gradients]
        return [0.0 if size <= self._least * beside else size for size in sizes]

    def told(self) -> Any:
        """The places, those nearest to the loss first."""
        leads = self._leading()
        sums: dict[Any, list[Any]] = {}
        for node, following in self._nodes:
            for n, some in zip(following, self._passed.get(node, ()), strict=False):
                if n is not None and some:
                    sums.setdefault(n, []).append(node)
        out = []
        for node, following in sorted(self._nodes, key=lambda e: -min(e[0]._sequence_nr(), 1 << 62)):
            if node not in leads:
                continue
            given = self._given.get(node, 0.0)
            on = [s for n, s in zip(following, self._passed.get(node, ()), strict=False) if n in leads]
            adding = sorted(sums.get(node, ()), key=lambda n: -n._sequence_nr())
            if len(adding) > 1 and not given:
                whole = _meeting(adding, sums) or adding[0]
                out.append({**self._place(whole, "cancels"), "inner": self._place(adding[-1], "")["frames"]})
                out[-1]["equal"] = whole not in adding
            elif given and following and node in self._passed and not any(on):
                out.append(self._place(node, "ends"))
        reached = {id(v) for n, _ in self._nodes if (v := getattr(n, "variable", None)) is not None} & self._leaves
        positions = [i for i, p in enumerate(self._target.parameters) if id(p) in reached]
        memory = {storage_of(self._target.parameters[i]) for i in self._chosen}
        leaves = [v for n, _ in self._nodes if (v := getattr(n, "variable", None)) is not None]
        shares = any(id(v) not in self._leaves and storage_of(v) in memory for v in leaves)
        return {"shares": shares, "ends": out[:MOST_ENDS], "deep": self.deep, "reached": positions}

    def forget(self) -> None:
        """Take the hooks away: the graph may be used again."""
        for hook in self._keep:
            hook.remove()

    def _leading(self) -> set[Any]:
        """The nodes that lead to one of the parameters."""
        leads = {n for n, f in self._nodes if not f and id(getattr(n, "variable", None)) in self._leaves}
        parents: dict[Any, list[Any]] = {}
        for node, following in self._nodes:
            for n in following:
                parents.setdefault(n, []).append(node)
        todo = list(leads)
        while todo:
            for parent in parents.get(todo.pop(), ()):
                if parent not in leads:
                    leads.add(parent)
                    todo.append(parent)
        return leads

    def _place(self, node: Any, how: str) -> dict[str, Any]:
        kept = node_stacks.kept_in(node)
        frames = frames_of(kept, self._cwd) if isinstance(kept, stacks.Stack) else []
        cls = getattr(type(node), "_forward_cls", None)
        code = functions.backward_code(cls) if isinstance(cls, type) else None
        told: dict[str, Any] = {"op": str(node.name()), "how": how, "frames": [dict(vars(f)) for f in frames]}
        if isinstance(cls, type) and code is not None:
            told["function"] = functions.described(cls, code, node, shown_file(code.co_filename, self._cwd), frames)
            functions.count_inputs(told["function"], node)
        return told


def _largest(gradient: Any) -> float:
    dense = gradient.detach() if gradient.layout is torch.strided else gradient.detach().to_dense()
    return float(dense.abs().nan_to_num(math.inf).max())


def _meeting(nodes: list[Any], above: dict[Any, list[Any]]) -> Any:
    """The operation nearest to these through which all that they were given came; None where there is none."""
    left = set(nodes)
    while len(left) > 1:
        node = min(left, key=lambda n: n._sequence_nr())
        if not above.get(node):
            return None
        left.remove(node)
        left.update(above[node])
    return left.pop()
