"""Lost gradients of gradients: an inner loss without ``create_graph``, a product with a Hessian that is zero.

A first-order inner step is nothing by itself: the outer loss reaches the parameters that were adapted as it would with
``create_graph``. What enters the inner loss alone has no other way to the outer one than through that gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.constants import LINEAR
from graphdoc.capture.audit.deadends import has_saved_the_same
from graphdoc.capture.audit.watch import ENOUGH, OFTEN, Early, EngineCall, Watch
from graphdoc.capture.events.journal import Noted, Seen
from graphdoc.capture.graph.roots import roots_of_call
from graphdoc.capture.graph.summands import constants
from graphdoc.capture.graph.walk import VIEWS, inputs_of, nodes_behind, op_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.tensors.facts import grad_fn_of, parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import is_zero, numbers_of
from graphdoc.evidence import ITSELF, Sign

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


MOST_FOLLOWED = 2_000


class Inner(Early):
    """``inner-only``: ``stack`` is the latest such ``grad`` call, ``other`` the latest backward call, ``parameters``
    what no backward call has reached. Whether the gradient enters that call's loss, the source has to tell."""

    def set_up(self) -> None:
        self._entered: dict[int, tuple[Noted, int]] = self._journal.living.forgetting({})
        """By parameter: the latest inner gradient whose loss it has entered, and how many there were."""
        self._excused: set[int] = self._journal.living.forgetting(set())
        """Parameters that a gradient was asked for, or that entered one with ``create_graph``."""
        self._missed: list[tuple[list[Any], Sign]] = []

    def asked(self, call: EngineCall) -> None:
        if call.recorded:
            self._excused.update(call.leaves)
            return
        self._excused.update(map(id, call.inputs))
        kind = self._audit.torch.nn.Parameter
        for ident, leaf in call.leaves.items():
            _, count = self._entered.get(ident, (None, 0))
            if type(leaf) is kind and (count or len(self._entered) < MOST_FOLLOWED):
                self._entered[ident] = call.noted, count + 1

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.steps != ENOUGH or not self._entered:
            return
        audit = self._audit
        mine = [p for p in parameters_of(optimizer) if self._is_missed(p)]
        last = audit.journal.latest("backward")
        if not mine or last is None:
            return
        noted, _ = self._entered[id(mine[0])]
        sign = self._sign("inner-only", noted, last, map(id, mine), optimizer=seen.id, count=ENOUGH)
        sign.facts = {"outer": last.index}
        self._missed.append(([Ref(p) for p in mine], sign))
        audit.tell_early()

    def _is_missed(self, parameter: Any) -> bool:
        """Whether a parameter has entered inner losses and no other."""
        ident, audit = id(parameter), self._audit
        _, count = self._entered.get(ident, (None, 0))
        if count < OFTEN or ident in self._excused:
            return False
        had = parameter.grad is not None or audit.journal.with_grad.get(ident)
        return bool(parameter.requires_grad and not had and ident not in audit.reached)

    def signs(self) -> list[Sign]:
        """What is still so: a later phase may have trained them."""
        alive = ((sign, [p for ref in refs if (p := ref()) is not None]) for refs, sign in self._missed)
        return [sign for sign, mine in alive if sign.parameters and all(map(self._is_missed, mine))]


def behind(witness: Witness, roots: Iterable[Any]) -> Iterator[tuple[Any, stacks.Stack, bool]]:
    """The nodes behind these, with where they were made, and whether a gradient that was recorded has made them."""
    engine = witness.calls.code
    for node, _ in islice(nodes_behind(roots), MOST_NODES):
        kept = stacks.stack_of(node)
        if kept is not None:
            yield node, kept, stacks.made_in_backward(kept, engine)


def has_derivative(witness: Witness, roots: Iterable[Any]) -> bool:
    """Whether a gradient that was recorded lies behind these nodes."""
    return any(recorded for *_, recorded in behind(witness, roots))


# Products with a Hessian that are zero: a gradient was taken with ``create_graph``, and its own gradient is nothing.
# Two parts of it may be one function of the same parameters, computed twice: a divergence of a policy from itself is
# zero whatever the parameters are, and so are its derivatives; with one side held constant that is the Fisher matrix.

MOST_ADDED = 4
"""Losses that are looked at for recorded gradients."""
TRIED = 3
"""Products that were looked at, and all of them zero."""
NOTHING = 1e-5
"""No more than rounding leaves of numbers about one."""
MOST_NODES = 2_000


class Products(Watch):
    """``compared-with-itself``: ``other`` is a ``grad`` call whose results have a gradient of zero, each time that it
    was looked at, ``stack`` where the first of two like computations in it was called and ``facts["second"]`` where the
    second was. ``suspect-residual``: it is not zero, and a loss is made of recorded gradients, of these as numbers
    perhaps."""

    def set_up(self) -> None:
        self._first: tuple[Noted, frozenset[int]] | None = None
        """The latest call with ``create_graph``, and the ids of its inputs."""
        self._sides: list[stacks.Stack] = []
        """Where the two like computations in it begin, once a product was zero."""
        self.waits = False
        """Whether the call of a product runs now."""
        self._second: Noted | None = None
        self._zeros = 0
        self._over = False
        self._bends: Noted | None = None
        """A product that is not zero: it may be part of a loss."""
        self._entered = False

    def asked(self, call: EngineCall) -> None:
        self.waits = False
        if self._over:
            return
        asked = frozenset(map(id, call.inputs))
        if call.recorded:
            self._first = call.noted, asked
            if self._zeros:
                self._sides = _like_sides(call.outputs, asked)
        elif self._first is not None and asked and asked <= self._first[1]:
            # Does a gradient that was recorded lie behind these?
            self.waits = has_derivative(self._audit.witness, roots_of_call(call.outputs))
            self._second = call.noted if self.waits else self._second

    def gave(self, noted: Noted, results: Any) -> None:
        if noted is not self._second or self._first is None:
            return
        self.waits = False
        numbers = [numbers_of(r) for r in results if r is not None and r.numel()]
        zero = bool(numbers) and all(n is not None and float(n.abs().max()) <= NOTHING for n in numbers)
        if not zero:
            self._over = True  # somewhere it bends
            self._bends = noted
            return
        self._zeros += 1
        self._over = self._zeros >= TRIED
        if self._over and len(self._sides) == 2:
            facts = {"second": self._facts(self._sides[1])}
            self._report(self._sign_at(ITSELF, self._sides[0], self._first[0], count=TRIED, facts=facts))

    def called(self, call: EngineCall) -> None:
        if self._bends is not None and not self._entered and self._may_look(MOST_ADDED):
            self._entered = has_derivative(self._audit.witness, roots_of_call(call.outputs))

    def signs(self) -> list[Sign]:
        if self._entered and self._bends is not None:
            return [self._sign_at("suspect-residual", self._bends, weak=True)]
        return self._found


def _like_sides(outputs: Any, wanted: frozenset[int]) -> list[stacks.Stack]:
    """Where the two computations begin that a zero is made of, if each of these leaves (ids) is used by a first one and
    then in the same way, with the same numbers, by a second."""
    if any((n := numbers_of(t)) is None or float(n.abs().max()) > NOTHING for t in outputs):
        return []
    users: dict[int, dict[Any, None]] = {}
    nodes = list(islice(nodes_behind(roots_of_call(outputs)), MOST_NODES))
    if 0.0 in constants(node for node, _ in nodes):
        return []  # weighed by zero, whatever it is
    for node, following in nodes:
        for leaf in (id(getattr(n, "variable", None)) for n, _ in following):
            if leaf in wanted:
                users.setdefault(leaf, {})[node] = None
    both = [sorted(using, key=lambda n: int(n._sequence_nr())) for using in users.values()]
    first = [n for using in both for n in using[: len(using) // 2]]
    second = [n for using in both for n in using[len(using) // 2 :]]
    like = len(first) == len(second) and all(map(has_saved_the_same, first, second))
    if not like or not first or max(n._sequence_nr() for n in first) >= min(n._sequence_nr() for n in second):
        return []
    return [kept for side in (first, second) if (kept := stacks.stack_of(side[0])) is not None]


# Second derivatives that are terms of a loss and zero everywhere: a network of straight pieces bends nowhere but where
# two of them meet. Its gradient is zero too, so the term trains nobody, and there is no error: the input takes part.

MOST_RECORDED = 48
"""Calls with ``create_graph`` that are looked at."""
STRAIGHT = {"ReluBackward0", "LeakyReluBackward0", "HardtanhBackward0", "ThresholdBackward0", "PreluKernelBackward0"}
STRAIGHT |= {"AbsBackward0", "ClampBackward0", "ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0"}
STRAIGHT |= {"MaximumBackward0", "MinimumBackward0", "RreluWithNoiseBackward0", "HardsigmoidBackward0"}
_PRODUCTS = {"MulBackward0", "DivBackward0", "AddmmBackward0", "MmBackward0", "BmmBackward0", "ConvolutionBackward0"}


class Unbent(Watch):
    """``unbent``: ``stack`` is the ``grad`` call that gives a second derivative, zero in each of ``count``
    losses that were computed from it; ``other`` is a function of straight pieces (``facts["op"]``) that it is of, and
    ``facts["backward"]`` the backward call."""

    def set_up(self) -> None:
        self._inputs = set[int]()
        """Of the calls with ``create_graph`` since the latest backward call, by id."""
        self._straight: tuple[str, stacks.Stack] | None = None
        """A function of straight pieces that such a call was of."""
        self._second: tuple[Noted, tuple[str, stacks.Stack]] | None = None
        self._zeros: dict[Any, tuple[Noted, tuple[str, stacks.Stack], set[tuple[str, int]]]] = {}
        """By the place of the call: what it is of, and the nodes of its results, by operation and sequence number."""
        self._bent = set[Any]()
        """Places of calls that have given something else, or may."""

    @property
    def waits(self) -> bool:
        """Whether the call of such a derivative runs now."""
        return self._second is not None

    def asked(self, call: EngineCall) -> None:
        self._second = None
        if not call.recorded or not self._may_look(MOST_RECORDED):
            return
        mine = set(map(id, call.inputs))
        nodes = list(behind(self._audit.witness, roots_of_call(call.outputs)))
        straight = ((op_of(n), kept) for n, kept, again in nodes if not again and op_of(n) in STRAIGHT)
        self._straight = next(straight, self._straight)
        if self._straight is not None and mine & self._inputs and any(again for *_, again in nodes):
            # What bends may do so for other data, or once it is no longer weighed by zero.
            if any(not again and not _is_straight(node, mine) for node, _, again in nodes):
                self._bent.add(site_of(stacks.stack_of_seen(call.noted[3])))
            else:
                self._second = call.noted, self._straight
        self._inputs |= mine

    def gave(self, _noted: Noted, results: Any) -> None:
        assert self._second is not None
        noted, made = self._second
        self._second = None
        place = site_of(stacks.stack_of_seen(noted[3]))
        nodes = {n for r in results if r is not None and (n := grad_fn_of(r)) is not None}
        if nodes and all(is_zero(r) for r in results if r is not None):
            self._zeros[place] = noted, made, {(op_of(n), n._sequence_nr()) for n in nodes}
        else:
            self._bent.add(place)

    def called(self, call: EngineCall) -> None:
        self._inputs.clear()
        self._straight = None
        zeros, self._zeros = self._zeros, {}
        if not zeros:
            return
        behind = {(f.op, f.sequence) for f in call.order}
        for place, (noted, (op, made), nodes) in zeros.items():
            if nodes & behind and self._often(place, TRIED):
                facts = {"op": op, "backward": self._line(call.noted)}
                sign = self._sign_at("unbent", noted, made, count=self._times[place], facts=facts)
                self._kept[place] = sign

    def signs(self) -> list[Sign]:
        return [sign for place, sign in self._kept.items() if place not in self._bent]


def _is_straight(node: Any, mine: set[int]) -> bool:
    """Whether an operation bends nowhere but in single points, as a function of these leaves."""
    op = op_of(node)
    if op in _PRODUCTS:  # with a number or a parameter; a quotient by it
        others = [n for n in inputs_of(node) if not _is_weight(n, mine)]
        return len(others) <= 1 and not (op == "DivBackward0" and node.next_functions[1][0] in others)
    return op in STRAIGHT | LINEAR or hasattr(node, "variable")


def _is_weight(node: Any, mine: set[int]) -> bool:
    """Whether a node gives a view of a leaf that is none of these."""
    while op_of(node) in VIEWS:
        (node,) = inputs_of(node)
    return hasattr(node, "variable") and id(node.variable) not in mine
