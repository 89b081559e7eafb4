"""A close look at a few iterations: what goes into the loss without a graph, though it was computed with one.

While it looks, every operation of the program passes by it and would leave its frame in a traceback, so this is for
runs that graphdoc starts by itself. It looks from the first backward call until a few steps later.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch.overrides import _get_current_function_mode_stack

from graphdoc.capture.audit.inner import has_derivative
from graphdoc.capture.events.cut_records import Record, came_without_graph, is_users, records_behind
from graphdoc.capture.events.journal import leaves_behind
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.summands import Part, added_up, constants, kind_of, missed_by, parts_of, reshaped, top_of
from graphdoc.capture.graph.walk import DEEP, inputs_of, nodes_behind, reached
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of, site_of
from graphdoc.capture.second_run.cut_recorder import CONVERSIONS, DETACHES, FILLED, QUIET, REMADE, flat, name_of
from graphdoc.capture.second_run.cuts import CutWatch, is_draw
from graphdoc.capture.second_run.reentries import BY_NAME, Reentries
from graphdoc.capture.tensors.access_paths import numbers_in
from graphdoc.capture.tensors.facts import grad_fn_of, is_leaf
from graphdoc.capture.tensors.number_facts import numbers_of
from graphdoc.capture.trials.reference import is_recorded

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_OPERATIONS = 300_000
"""Operations that are looked at, more than a second run has time for in most programs. Reading an attribute is none:
the look itself reads some of every parameter."""
MOST_STEPS = 4
"""Steps of optimizers until the look ends."""
MOST_FOLLOWED = 2_000
"""Results without a graph that are followed back from one loss."""
MOST_LEFT = 200
"""Values that leave the graph, as far as they are remembered."""
_ADDS = {"add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "__rsub__", "rsub", "stack", "cat", "sum"}
_MEANT = {"detach", "detach_"}
"""An author who writes ``detach`` says so, of a value that goes into a term beside others; the other ways to lose a
graph are nobody's wish in a term of a loss, and neither is a ``detach`` of all that a term is made of, which is then
added and goes nowhere else."""
_LEAVING, _GIVES_NUMBERS = CONVERSIONS | DETACHES, REMADE | BY_NAME
_LOOKUPS = ("Embedding", "Index", "Gather")
_LOGARITHMS = {"log", "log_", "log1p", "log2"}
_GAINS = _ADDS - {"sub", "__sub__", "__rsub__", "rsub"}
"""What is taken off a loss is a baseline, and has no gradient by right."""


@dataclass
class Estimator:
    """A sum ``x + (z - x).detach()``: ``within`` are the ids of the leaves behind ``x``, ``missed`` of those behind
    ``z`` alone, ``made`` the sequence numbers of what it has given."""

    at: stacks.Stack
    within: frozenset[int]
    missed: frozenset[int] = frozenset()
    made: list[int] = field(default_factory=list)


class TermWatch(CutWatch):
    """``CutWatch`` that also remembers what has been added to a number with a graph."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self.terms: dict[int, tuple[list[Record], stacks.Stack]] = {}
        """By the sequence number of the addition: the cuts behind the term that has no graph, where it was added."""
        self.residuals: dict[int, tuple[list[Record], stacks.Stack]] = {}
        """The same of sums, element by element, of a derivative without a graph and one with it."""
        self._second: deque[Record] = deque(maxlen=MOST_LEFT)
        """Gradients without a graph of what recorded gradients went into."""
        self.leaves: dict[Record, frozenset[int]] = {}
        """Conversions of something with a graph, with the ids of the leaves behind that."""
        self.switched_off: dict[Record, frozenset[int]] = {}
        """The same of what the user's own ``no_grad`` kept from being recorded."""
        self.estimators: dict[Any, Estimator] = {}
        """By place."""
        self.bypasses: set[Any] = set()
        """Places of what is detached in them."""
        self._detached: deque[Record] = deque(maxlen=MOST_LEFT)
        """Single numbers that were detached."""
        self._surrogates: set[int] = set()
        """Sequence numbers of values that had their own number taken off."""
        self.shown: set[Any] = set()
        """Places of the numbers that are seen in the place of such a value's."""
        self._weights: dict[Any, list[float | None]] = {}
        """By the place of a draw: what its log-probability was multiplied with when it was first looked at."""
        self.taken_up: set[int] = set()
        """Sequence numbers of what a recorded operation has taken: it goes on with its graph."""
        tensor = self._torch.Tensor
        self._flags = (tensor.requires_grad_, tensor.requires_grad.__set__)
        """Not every setter: asking for the history of a view whose hooks are being set waits for itself for ever."""
        self._into_leaves: deque[Record] = deque(maxlen=MOST_LEFT)
        """What new leaves that require gradients were made from."""
        self._differentiated: set[Any] = set()
        """Places of such numbers whose graph a backward call goes through all the same, by another name."""
        self._through: deque[int] = deque(maxlen=MOST_LEFT)
        """Sequence numbers of the nodes that the latest backward calls have begun at, those of each row too."""
        self.reentries = Reentries()
        self.since = -1
        """The index of the latest backward call that has begun before."""
        self.entered = self.over = False
        self._operations = 0
        self._steps = 0

    # -- when ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A backward call is about to run, the first perhaps."""
        if self.entered or self.over:
            return
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if not all(isinstance(mode, CutWatch) for mode in _modes()) or (counters and counters["frames"]):
            self.over = True
            return
        self.__enter__()  # type: ignore[no-untyped-call]
        self.entered = True
        self._witness.undoing.append(self.end)

    def stepped(self) -> None:
        self._steps += self.entered
        if self.entered and (self._steps >= MOST_STEPS or self._operations >= MOST_OPERATIONS):
            self.end()

    def look_again(self) -> None:
        """Begin anew with the next backward call: what is to be seen comes in a later phase of the program."""
        if self.over:
            self.over, self._steps = False, 0
            self.leaves.clear()
            self.switched_off.clear()
            self._into_leaves.clear()

    def end(self) -> None:
        """Look no more. Where a mode of the program's lies on top, ours stays below it and does nothing."""
        self.over = True
        modes = _modes()
        if self.entered and modes and modes[-1] is self:
            self.__exit__(None, None, None)
            self.entered = False

    # -- what ----------------------------------------------------------------------------------------------------

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.over:
            return
        self._operations += getattr(func, "__name__", "") != "__get__" and name_of(func) not in QUIET
        if self._operations >= MOST_OPERATIONS:
            return
        super()._note(func, args, kwargs, result)
        name, values = name_of(func), [*args, *(kwargs or {}).values()]
        self._note_gradients(name, values, result)
        if isinstance(result, self._torch.Tensor) and result.grad_fn is not None:
            given = [v for v in flat(values) if isinstance(v, self._torch.Tensor)]
            self.reentries.took(given, result)
            self.taken_up |= {n._sequence_nr() for n in self._nodes_of(given)}
        if name in _GIVES_NUMBERS:
            self.reentries.note(self._of(result), self._nodes_of(flat(flat(values[name in FILLED :]))))
        if name in _ADDS and isinstance(result, self._torch.Tensor) and result.requires_grad:
            self._note_sum(args, result, name in _GAINS)
            self._note_estimator(args, result)
        elif name == "__setitem__" and args[0].requires_grad:
            self._note_sum(args[2:], args[0], True)  # into a vector that the loss is the sum of
        elif name in _LEAVING and args and isinstance(args[0], self._torch.Tensor):
            if name in _MEANT:
                self._note_detached(args[0], result)
            self._note_leaving(args[0], result)
        elif func in self._flags and is_leaf(args[0]):
            own = self._of(args[0]) if args[0].requires_grad else None
            if own is not None:  # what was cut off is let require gradients
                self._into_leaves.append(own)
        elif not self._torch.is_grad_enabled():
            self._note_unrecorded(result)
        elif isinstance(result, self._torch.Tensor) and is_leaf(result) and result.requires_grad:
            own = self._of(result)
            if own is not None and own.origins and len(self.leaves) <= MOST_LEFT:
                self.leaves[own] = own.behind
                self._into_leaves.append(own)
            records = (self._of(v) for v in islice(numbers_in(args), MOST_LEFT))
            self._into_leaves.extend({r: None for r in records if r is not None})

    def _nodes_of(self, values: Iterable[Any]) -> list[Any]:
        """The nodes that have made those of these that have a graph."""
        nodes = (grad_fn_of(v) for v in values if isinstance(v, self._torch.Tensor))
        return [n for n in nodes if n is not None]

    def cuts_behind(self, nodes: Iterable[Any]) -> list[Record]:
        """Where what comes into these operations as a constant was cut off, the nearest to the loss first."""
        numbers = {n._sequence_nr() for n in nodes}
        taken = [(n, r) for n, r, _ in self.entered_values.latest if n in numbers and not r.integral]
        latest = [r for _, r in sorted(taken, key=lambda e: -e[0])]
        return [r for r in records_behind(latest, MOST_FOLLOWED) if r.origins]

    def drawn_into(self, roots: list[Any], held: Collection[int]) -> list[tuple[Record, frozenset[int]]]:
        """Random draws that went as numbers into one term of this loss, which reaches nothing of what they were drawn
        from, with the leaves among these that other terms reach. A draw whose log-probability is weighed, by another
        number for each element or in each step, is the author's way to learn from it."""
        parts = parts_of(roots)
        found = []
        for part in parts:
            missed = missed_by(part, parts, held)
            for draw in self._drawn_in(part) if missed else ():
                behind = draw.behind & missed
                if not behind or draw.integral:
                    continue  # whole numbers are decisions
                others = (p for p in parts if p is not part and draw in self._drawn_in(p))
                weights = [w for p in others for w in constants(p.nodes.values())]
                weights += constants(top_of(roots, rows=True)) if weights else []
                if None not in weights and self._weights.setdefault(draw.place, weights) == weights:
                    found.append((draw, frozenset(behind)))
        return found

    def passed_by(self, roots: list[Any], held: Collection[int]) -> list[tuple[Record, frozenset[int], stacks.Stack]]:
        """Decisions by which one term of this loss looks ``z`` up in a table and trains more than the table, in place
        of a sum ``x + (z - x).detach()`` that no operation ever takes: with the leaves behind ``x`` that the term
        misses by that, and the sum. Not where another term trains these that knows nothing of the table: their task."""
        idle = [s for s in self.estimators.values() if self.taken_up.isdisjoint(s.made)]
        parts = parts_of(roots) if idle else []
        found = []
        for part in parts:
            missed = missed_by(part, parts, held)
            for node, record in self._taken_by(part) if missed else ():
                cuts = (r for r in records_behind([record], MOST_FOLLOWED) if r.origins)
                cut = next(cuts, None) if record.integral and type(node).__name__.startswith(_LOOKUPS) else None
                if cut is None or not cut.integral:
                    continue
                looked_up = leaves_behind([node]) or {0}
                for unused in idle:
                    table, mine = unused.missed, unused.within
                    further = table.issuperset(looked_up) and not (part.leaves - table).isdisjoint(held)
                    met = further and mine & missed and mine <= cut.behind
                    takes = (any(r.behind & table for r in self._numbers_in(p)) for p in parts if p.leaves & mine)
                    if met and all(takes):
                        found.append((cut, mine & missed, unused.at))
        return found

    def _taken_by(self, part: Part) -> list[tuple[Any, Record]]:
        """The operations of a term that have taken values without a graph, and these."""
        return [(part.nodes[n], r) for n, r, _ in self.entered_values.latest if n in part.nodes]

    def _numbers_in(self, part: Part) -> list[Record]:
        """What lies behind the values without a graph that have gone into a term."""
        return records_behind([r for _, r in self._taken_by(part)], MOST_FOLLOWED)

    def _drawn_in(self, part: Part) -> list[Record]:
        """The draws, from what has a graph, that have gone into it as numbers."""
        return [r for r in self._numbers_in(part) if r.origins and is_draw(r)]

    def _is_surrogate(self, flat: list[Any], result: Any, gains: bool) -> bool:
        """Whether a value has its own number taken off, ``x - x.item()``, or such a zero is added to the number that is
        to be seen in its place: who writes that wants the gradient of the one and the value of the other."""
        numbers = {n._sequence_nr() for n in self._nodes_of(flat)}
        records = [r for v in flat if (r := self._of(v)) is not None]
        if not gains and any(r.left in numbers for r in records):
            self._surrogates.add(result.grad_fn._sequence_nr())
        elif numbers.isdisjoint(self._surrogates):
            return False
        self.shown.update(r.place for r in records)
        return True

    def going_back(self, roots: list[Any], held: Collection[int]) -> list[tuple[Record, frozenset[int]]]:
        """Numbers that have left a graph and go on in that of these roots, with the leaves behind them."""
        return self.reentries.into(roots, held, self)

    def goes_on(self, record: Record) -> bool:
        """Whether what was converted has also gone on with its graph: then its number may be wanted as a number."""
        return record.left in self.taken_up

    def used(self) -> set[Record]:
        """The records whose numbers have gone into something that has a graph, or into a new leaf."""
        entered = [r for _, r, _ in self.entered_values.latest]
        return set(records_behind([*entered, *self._into_leaves], MOST_FOLLOWED))

    def _note_sum(self, args: Any, result: Any, gains: bool) -> None:
        values = flat(args)
        tensors = [v for v in values if isinstance(v, self._torch.Tensor)]
        if result.grad_fn is None:
            return
        each = any(v.numel() != 1 for v in tensors)
        if each:  # a loss may be a sum of such sums
            self._note_residual(tensors, result)
            if kind_of(result.grad_fn) != "Add":
                return
        elif self._is_surrogate(values, result, gains):
            return
        for value in (*tensors, *(v for v in values if type(v) is float and not each)):
            if type(value) is not float and not (came_without_graph(value, result) and value.dtype.is_floating_point):
                continue
            record = self._of(value)
            # What is weighed by zero, for now perhaps, is no part of it.
            behind = [*reached([record], lambda r: r.inputs if not r.void else (), 200)] if record is not None else []
            cuts = [r for r in behind if r.origins and not r.void]
            held = self._witness.journal.held() if cuts and (each or not cuts[0].recording) else set()
            cut = next((c for c in cuts if c.behind & held), cuts[0] if cuts and not each else None)
            if cut is not None and type(value) is float and record is not None:
                # A number that nobody needs as one: the conversion is the cut, whatever was detached for it.
                record.leaves, record.event = record.leaves + cut.leaves, cut.event
                cut = record
            meant = cut is not None and cut.op in _MEANT and (each or not gains)
            if cut is None or meant or (each and not self._lacks(result, cut, cuts)):
                continue
            part = cut.op in _MEANT and cut.made_of is None
            if _is_met(value, behind, cut) or (part and not cut.behind & self._witness.journal.held()):
                continue
            whole = gains and cut.switch is not None and is_users(cut.switch)
            if (cut.recording or whole) and not self._is_earlier(cut):
                # Terms that were detached one by one and then added up are one constant.
                parts = cuts if cut.op in _MEANT else []
                alone = [c for c in parts if c.made_of is not None and not self._is_earlier(c)]
                self.terms[result.grad_fn._sequence_nr()] = (alone or [cut], stacks.stack_here(4))

    def _lacks(self, result: Any, cut: Record, cuts: list[Record]) -> bool:
        """Whether a sum of values lacks what was cut off. Not where the other side is the very value that was cut, in
        another shape or times a number perhaps: what is added is then its difference to another one, say, which takes
        its place. Nor where nothing had a graph, and the sum leads to none of the same, which take turns perhaps."""
        made = map(stacks.stack_of, reached(inputs_of(result.grad_fn), reshaped, 200))
        taken = {site_of(kept) for kept in made if kept is not None}
        if any(site_of(origin.raw) in taken for c in cuts for origin in c.origins):
            return False
        return any(o.op for o in cut.origins) or not cut.behind.isdisjoint(leaves_behind([result.grad_fn]) or ())

    def _note_gradients(self, name: str, given: list[Any], result: Any) -> None:
        """Gradients were asked for, without a graph of their own. An inner step asks for those of what it has moved."""
        if name != "grad" or not isinstance(result, tuple) or len(given) < 2:
            return
        outputs, inputs = (tensor_roots(numbers_in([v])) for v in given[:2])
        if has_derivative(self._witness, outputs) and not has_derivative(self._witness, inputs):
            records = (self._of(r) for r in result if isinstance(r, self._torch.Tensor) and not r.requires_grad)
            self._second.extend(r for r in records if r is not None)

    def _note_residual(self, tensors: list[Any], result: Any) -> None:
        """A derivative of a recorded derivative has no graph and is added, element by element, to another one that has:
        the equation that such a sum stands for is to hold for both. What multiplies is a direction or a weight."""
        for value in (v for v in tensors if came_without_graph(v, result)):
            record = self._of(value)
            behind = records_behind([record], MOST_FOLLOWED) if record is not None else []
            cut = next((r for r in behind if r in self._second), None)
            if cut is None or any(r.op in _LEAVING for r in behind) or self._is_earlier(cut):
                continue
            if has_derivative(self._witness, [result.grad_fn]):
                self.residuals[result.grad_fn._sequence_nr()] = ([cut], stacks.stack_here(5))

    def _is_earlier(self, cut: Record) -> bool:
        """Whether a backward call has run since the cut, or through what was cut before that: what is kept from an
        earlier pass is meant as a number."""
        last = self._witness.journal.latest("backward")
        return (last is not None and last.index >= cut.event) or cut.left in self._through

    def _note_detached(self, value: Any, result: Any) -> None:
        if value.grad_fn is None or not self._torch.is_grad_enabled():
            return
        record = self._of(result)
        if record is None:
            return
        made_of = frozenset(n._sequence_nr() for n in top_of([value.grad_fn]))
        if not made_of.isdisjoint(self._through):
            self._differentiated.add(site_of(record.raw))
        if value.numel() == 1:
            record.made_of = made_of
            self._detached.append(record)

    def differentiating(self, roots: list[Any]) -> None:
        """A backward call goes through the graphs of these: what was detached of them is only a copy of the number."""
        through = {n._sequence_nr() for n in top_of(roots)}
        self._through.extend(n._sequence_nr() for n in top_of(roots, rows=True))
        self._differentiated |= {site_of(r.raw) for r in self._detached if r.made_of and r.made_of & through}

    def _note_leaving(self, value: Any, result: Any) -> None:
        node = value.grad_fn
        if node is None or len(self.leaves) > MOST_LEFT or not self._torch.is_grad_enabled():
            return
        first = next(numbers_in(result), None) if isinstance(result, list | tuple) else result
        record, _ = self._records.get(id(first), (None, None))
        if record is not None:
            self.leaves[record] = record.behind
            record.left = node._sequence_nr()
            sides = [n for n, _ in node.next_functions if n is not None]
            if type(node).__name__ == "SubBackward0" and len(sides) == 2:
                mine, other = (frozenset(leaves_behind([n]) or ()) for n in sides)
                numbers = [n._sequence_nr() for n in sides]
                record.sides = {numbers[0]: (mine, other - mine), numbers[1]: (other, mine - other)}

    def _note_unrecorded(self, result: Any) -> None:
        """What a checkpoint computes without recording: what lies behind a block that it runs again gets gradients in
        that run, so that only one with no input that requires them cuts. And what the user's own switch keeps
        unrecorded."""
        record, _ = self._records.get(id(result), (None, None))
        full = max(len(self.leaves), len(self.switched_off)) > MOST_LEFT
        if record is None or not record.origins or record.recording or full:
            return
        frames = frames_of(record.raw, self._witness.cwd)
        if any(f.file.replace("\\", "/").endswith("torch/utils/checkpoint.py") for f in frames):
            if not is_recorded(self._torch):
                self.leaves[record] = record.behind
        elif record.switch is not None and is_users(record.switch) and any(o.op for o in record.origins):
            self.switched_off.setdefault(record, record.behind)

    def _note_beside(self, record: Record, nodes: list[Any]) -> None:
        """Numbers are added to something with a graph that leads to all that lies behind them: they cut nothing off."""
        cut = [r for r in records_behind([record], MOST_FOLLOWED) if r in self.leaves or (r.origins and is_draw(r))]
        reached = frozenset(leaves_behind(nodes) or ()) if cut else frozenset()
        for r in cut:
            if r.behind and r.behind <= reached:
                self.leaves.pop(r, None)
                r.beside = True

    def _note_estimator(self, args: Any, result: Any) -> None:
        tensors = [v for v in args if isinstance(v, self._torch.Tensor)]
        nodes = [v.grad_fn for v in tensors if v.grad_fn is not None]
        live = [n._sequence_nr() for n in nodes]
        for value in tensors:
            record = self._of(value) if nodes and not value.requires_grad else None
            if record is None:
                continue
            self._note_beside(record, nodes)
            for mine, behind in (side for number, side in (record.sides or {}).items() if number in live):
                here = stacks.stack_here(4)
                known = self.estimators.setdefault(site_of(here), Estimator(here, mine))
                known.missed |= behind
                known.made.append(result.grad_fn._sequence_nr())
                self.bypasses.add(record.place)

    def added(self, roots: list[Any]) -> list[tuple[list[Record], stacks.Stack]]:
        """The terms without graph that the loss with these roots is a sum of. Where the values behind one have gone
        elsewhere into a graph as numbers, they are a target, and a term of the target alone is a constant by right."""
        top = {n._sequence_nr() for n in (*top_of(roots), *added_up(roots))}
        found = [term for n, term in self.terms.items() if n in top]
        kept = [(cuts, at) for cuts, at in found if all(site_of(r.raw) not in self._differentiated for r in cuts)]
        every = {r for cuts, _ in kept for r in cuts}
        may = {r for r in every if r.switch is not None or (r.op in _MEANT and r.made_of is None)}
        elsewhere = [r for n, r, _ in self.entered_values.latest if n not in self.terms] if may else []
        may &= {*records_behind(elsewhere, MOST_FOLLOWED)}
        kept = [(cuts, at) for cuts, at in kept if may.isdisjoint(cuts)]
        nodes = islice(nodes_behind(roots), DEEP) if self.residuals else ()
        return kept + [self.residuals[i] for n, _ in nodes if (i := n._sequence_nr()) in self.residuals]


def _is_met(value: Any, behind: list[Record], cut: Record) -> bool:
    """Whether a term is the logarithm of a condition that holds everywhere: log(1), which a density adds for its
    support and which is meant to have no gradient."""
    if type(value) is float or (numbers := numbers_of(value)) is None or bool(numbers.any()):
        return False
    return any(r.op in _LOGARITHMS and cut in records_behind([r], MOST_FOLLOWED) for r in behind)


def _modes() -> list[Any]:
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]
