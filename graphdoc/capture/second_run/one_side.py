"""In a second run: what a product with a Hessian would be if the first of two like computations were a constant.

A divergence of a policy from itself is zero whatever the parameters are, and so is its second derivative; with either
side held constant that is the Fisher matrix. The gradient is zero at that point in both cases, so it cannot tell.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from graphdoc.capture.graph.roots import roots_of_call
from graphdoc.capture.graph.walk import DEEP, nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.process.quiet import Unseen
from graphdoc.evidence import ITSELF, Frame, Sign

if TYPE_CHECKING:
    from graphdoc.capture.events.journal import Noted
    from graphdoc.capture.witness import Witness


ROUNDING = 1e-3
"""What is left of the whole product, as a share of that with one side held constant, where it is no more than what
rounding leaves."""
ENOUGH = 2
"""Gradients in which the same was seen."""

Sides = tuple[list[Any], list[Any]]
"""The nodes that use the parameters: of the first computation and of the second."""


class OneSide:
    """``compared-with-itself``: ``stack`` is where the first of the two computations was called, ``other`` the ``grad``
    call whose gradient is differentiated; ``facts["second"]`` is where the second computation was called."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._torch = witness.torch
        self._found: list[tuple[stacks.Stack, stacks.Stack, Noted]] = []
        self._refuted = False

    @classmethod
    def start(cls, witness: Witness, _: str) -> OneSide:
        look = cls(witness)
        if witness.audit is not None:
            witness.audit.products.closely = look
        return look

    def recorded(self, noted: Noted, outputs: Any, given: Any, inputs: Any) -> None:
        """A grad call with ``create_graph`` is about to run; ``given`` are the gradients that it starts from."""
        if self._refuted or len(self._found) >= ENOUGH:
            return
        with Unseen(self._torch, self._witness.anomaly, None), self._torch.enable_grad():
            nodes = list(islice(nodes_behind(roots_of_call(outputs)), DEEP - 1))
            sides = self._sides(nodes, inputs) if len(nodes) < DEEP - 1 else None
            places = [stack for side in sides or () if (stack := stacks.stack_of(side[0])) is not None]
            if sides is None or len(places) < 2:
                self._refuted = True
                return
            whole = self._product(outputs, given, inputs, [])
            alone = self._product(outputs, given, inputs, sides[0])
        if alone > 0.0 and whole <= ROUNDING * alone:
            self._found.append((places[0], places[1], noted))
        else:
            self._refuted = True

    def _sides(self, nodes: list[tuple[Any, Any]], inputs: Any) -> Sides | None:
        """Where every parameter is used by a first computation and then, in the same way, by a second."""
        wanted = {id(t) for t in inputs}
        users: dict[int, list[Any]] = {}
        for node, following in nodes:
            for leaf, _ in following:
                variable = getattr(leaf, "variable", None)
                if variable is not None and id(variable) in wanted and node not in users.setdefault(id(variable), []):
                    users[id(variable)].append(node)
        first: list[Any] = []
        second: list[Any] = []
        for using in users.values():
            using.sort(key=lambda n: n._sequence_nr())
            half = len(using) // 2
            if [type(n) for n in using[:half]] != [type(n) for n in using[half:]]:
                return None
            first += using[:half]
            second += using[half:]
        if not first or max(n._sequence_nr() for n in first) >= min(n._sequence_nr() for n in second):
            return None
        return first, second

    def _product(self, outputs: Any, given: Any, inputs: Any, constant: list[Any]) -> float:
        """The largest number in the product of the Hessian with a vector that is always the same, where what the nodes
        in ``constant`` have used does not move."""
        torch = self._torch
        engine = torch.autograd.Variable._execution_engine

        def nothing(passed: Any, _: Any) -> Any:
            return tuple(None if p is None else torch.zeros_like(p) for p in passed)

        hooks = [node.register_hook(nothing) for node in constant]
        try:
            slopes = engine.run_backward(
                outputs, given, True, True, inputs, allow_unreachable=True, accumulate_grad=False
            )
            slopes = [s for s in slopes if s is not None and s.requires_grad]
            if not slopes:
                return 0.0
            along = [torch.arange(s.numel(), device=s.device).cos().to(s.dtype).reshape(s.shape) for s in slopes]
            bent = engine.run_backward(
                tuple(slopes), tuple(along), True, False, inputs, allow_unreachable=True, accumulate_grad=False
            )
        finally:
            for hook in hooks:
                hook.remove()
        return max((float(b.abs().max()) for b in bent if b is not None and b.numel()), default=0.0)

    # -- what was found ------------------------------------------------------------------------------------------

    def signs(self) -> list[Sign]:
        """What was seen each time."""
        if self._refuted or len(self._found) < ENOUGH:
            return []
        first, second, noted = self._found[-1]
        asked = self._frames(stacks.stack_of_seen(noted[3]))
        sign = Sign(ITSELF, self._frames(first), asked, event=noted[0], count=len(self._found))
        sign.facts = {"second": [vars(f) for f in self._frames(second)]}
        return [sign]

    def _frames(self, raw: Any) -> list[Frame]:
        return frames_of(raw, self._witness.cwd)
