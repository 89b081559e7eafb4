"""Zeros from the first step on: gradients behind an operation that is flat where every value lies, and losses."""

from __future__ import annotations

from typing import Any

from graphdoc.capture.audit.constants import ends_of
from graphdoc.capture.audit.deadends import MOST_NODES, dominating
from graphdoc.capture.audit.watch import EngineCall, Open, Watch
from graphdoc.capture.events.journal import Noted, Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.places import stacks
from graphdoc.capture.tensors import saved
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import is_zero, numbers_of
from graphdoc.evidence import ALL_ZEROS, Sign

ENOUGH = 8
"""Steps from the first on, all with zeros alone, before anything is said."""
MOST_LOOKS = 4
_BOUNDS = {
    **dict.fromkeys(("ClampBackward0", "ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0"), ("min", "max")),
    "HardtanhBackward0": ("min_val", "max_val"),
}
"""The functions that are constant beyond a number, and what their nodes call it (``clamp`` of numbers makes a
``ClampBackward1``, and of tensors a ``ClampBackward0``: PyTorch 2.13)."""

_PRODUCTS = {
    **dict.fromkeys(("MmBackward0", "BmmBackward0"), ("self", "mat2")),
    "MulBackward0": ("self", "other"),
    "AddmmBackward0": ("mat1", "mat2"),
}
"""The functions that multiply, and what their nodes call the two factors, which are the last of their inputs."""
ZEROS = "zeros"
_KEEPING = {f"{kind}Backward{i}" for kind in ("Add", "Sum", "Mean", "Pow", "Stack", "Cat") for i in (0, 1)}
"""What has its least value where its operands have theirs."""


class Flattened(Open):
    """``zero-derivative`` with ``facts["flat"]``, on which side of which bound every value lies, or ``ZEROS`` for a
    product with zeros alone (``facts["both"]``: of each other): ``stack`` is the operation, ``other`` the backward
    call, ``parameters`` those behind it, ``count`` the steps. Only of parameters whose gradient has never been another
    number than zero; the first that is takes them out of the sign. ``starved`` with ``facts["zeros"]``: those of the
    whole optimizer, and no backward call has reached one of them; else ``all-zeros``, weak."""

    def set_up(self) -> None:
        self._zeros: dict[int, set[int]] = {}
        """By optimizer: ids of the parameters that have been given zeros alone."""
        self._met: tuple[Sign, set[int], list[Ref]] | None = None
        """The operation, and the parameters behind it: their ids, which are theirs while they live."""
        self._alone = False
        """What went in is made of parameters and of nothing else, or all of these are zero: no other batch will bring
        it back."""
        self._lowest = False
        """It is a term of the loss by itself, and has the least value that it may have: a margin that is met."""

    def called(self, call: EngineCall) -> None:
        if not self._zeros or self._met is not None or not self._may_look(MOST_LOOKS):
            return
        nodes = enumerate(call.order.nodes) if len(call.order) < MOST_NODES else ()
        flat = {n: side for n, node in nodes if (side := _outside(node))}
        found = dominating(call.order, flat, self._audit.torch.nn.Parameter) if flat else None
        node: Any = call.order.nodes[found[0]] if found is not None else None
        kept = stacks.stack_of(node) if node is not None else None
        if found is None or kept is None:
            return
        sign = self._met_at("zero-derivative", node, kept, call.noted)
        both = flat[found[0]] == ZEROS and all(n is not None for n, _ in node.next_functions[-2:])
        sign.facts |= {"flat": flat[found[0]], "both": both}
        self._met = sign, {id(p) for p in found[1]}, [Ref(p) for p in found[1]]
        self._lowest = flat[found[0]].startswith("below") and node in ends_of(call.roots, _KEEPING)
        behind = list(walk.nodes_behind([node]))
        self._alone = all(n is not None for _, following in behind for n, _ in following) or (
            both and all(map(is_zero, found[1]))
        )

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped: the first number that is not zero ends the question."""
        audit = self._audit
        steps = seen.steps
        given = {id(p): p.grad for p in parameters_of(optimizer) if p.grad is not None}
        asked = given.keys() & self._zeros[seen.id] if steps > 1 else given.keys()
        zeros = {i for i in asked if is_zero(given[i])}
        if not zeros:
            self.over.add(seen.id)
            self._zeros.pop(seen.id, None)
            self._kept.pop(seen.id, None)
            return
        self._zeros[seen.id] = zeros
        whole = len(zeros) == len(given)
        if steps >= ENOUGH and self._met is not None:
            self._tell(zeros, whole, seen, *self._met)
        elif steps == ENOUGH and whole:
            met = not zeros.isdisjoint(audit.reached)
            sign = self._sign_of_step(ALL_ZEROS if met else "starved", seen, parameters_of(optimizer))
            if sign is not None:
                sign.weak, sign.facts = met, {"zeros": True, "no_call": False}
                self._kept[seen.id] = sign
        elif not whole and (kept := self._kept.get(seen.id)) is not None and kept.kind == ALL_ZEROS:
            del self._kept[seen.id]
        if seen.id in self._kept:
            self._kept[seen.id].count = steps

    def _tell(self, zeros: set[int], whole: bool, seen: Seen, sign: Sign, behind: set[int], refs: list[Ref]) -> None:
        audit, told = self._audit, self._kept.pop(seen.id, None)
        mine = zeros & behind  # of others it is not known why they get zeros
        if any(ref() is None for ref in refs) or not (mine == zeros if whole else mine and self._alone):
            return
        if self._lowest and self.over:
            return  # another optimizer trains: its constraint, or its player, has nothing to do yet
        if told is None or told.weak:
            audit.snapshot()
        sign.parameters = audit.named(mine)
        sign.optimizer = seen.id
        self._kept[seen.id] = sign
        if told is None or told.weak:
            audit.tell_early()

    @property
    def told(self) -> set[int]:
        """Ids of the parameters of which it is known why their gradient is zero."""
        return self._met[1] if self._kept and self._met is not None else set()


# Losses that are zero by the way they are written, with gradients that are not: ``exp(x - x.detach())`` times an
# advantage whose mean is zero. Nothing is wrong with them; who asks for everything is told, as the value shows nothing.

ALIKE = 4
"""The first backward calls, all of a loss of zero, with a gradient each."""
ZERO_LOSS = 1e-6
"""What a sum that is zero may have by rounding; the gradients have to be this many times as large:"""
LARGER = 1000.0


class ZeroLoss(Watch):
    """``zero-loss``, weak: ``stack`` is the backward call, ``count`` how often its loss was zero and its gradient was
    not. Looked for only where the user wants all signs."""

    def set_up(self) -> None:
        self.over = "audit-all" not in self._audit.witness.words
        self._waits: tuple[Noted, float] | None = None
        self._seen = 0

    def called(self, call: EngineCall) -> None:
        if self.over:
            return
        loss = numbers_of(call.outputs[0]) if len(call.outputs) == 1 else None
        value = float(loss) if loss is not None and loss.numel() == 1 else float("nan")
        self._waits = (call.noted, abs(value)) if abs(value) <= ZERO_LOSS else None
        self.over = self._waits is None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if self._waits is None:
            return
        (noted, value), self._waits = self._waits, None
        grads = (numbers_of(p.grad) for p in parameters_of(optimizer) if p.grad is not None)
        largest = max((float(g.abs().max()) for g in grads if g is not None and g.numel()), default=0.0)
        self._seen += largest > LARGER * max(value, ZERO_LOSS / LARGER)  # a group of equal rewards has no gradient
        if self._seen == ALIKE:
            self.over = True
            self._found = [self._sign_at("zero-loss", noted, count=ALIKE, weak=True)]


def _outside(node: Any) -> str:
    """``below 0``: the side on which every value lies that went in, of a function that is constant beyond a bound;
    empty for anything else. The names of what is saved are those of torch/tools/autograd/derivatives.yaml."""
    name = type(node).__name__
    try:
        if name == "ReluBackward0":
            result = saved.numbers(node, "result")
            return "below 0" if result is not None and not bool(result.any()) else ""
        value = saved.numbers(node, "self") if name in _BOUNDS else None
        if value is not None:
            low, high = (getattr(node, f"_saved_{key}", None) for key in _BOUNDS[name])
            if isinstance(low, int | float) and bool((value < low).all()):
                return f"below {low:g}"
            return f"above {high:g}" if isinstance(high, int | float) and bool((value > high).all()) else ""
        # Each factor that has a graph is multiplied by zeros alone. A single number is none: who writes
        # ``0.0 * penalty`` means it, and a schedule begins so.
        factors = zip(reversed(_PRODUCTS.get(name, ())), node.next_functions[-2:], strict=False)
        against = [saved.numbers(node, key) for key, (way, _) in factors if way is not None]
        zero = all(t is not None and t.numel() > 1 and not bool(t.any()) for t in against)
        return ZEROS if against and zero else ""
    except (AttributeError, RuntimeError, TypeError):
        return ""
