"""Losses that go on without what they were built for, cut off as a whole, in one term, or but for a detached part."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

from graphdoc.capture.audit.hidden import inside
from graphdoc.capture.audit.moved import Fingerprint
from graphdoc.capture.audit.stale import as_if
from graphdoc.capture.audit.terms import Estimator, TermWatch
from graphdoc.capture.audit.watch import OFTEN, EngineCall, Watch
from graphdoc.capture.events.cut_records import Record, records_behind
from graphdoc.capture.events.journal import Noted, Seen
from graphdoc.capture.graph import functions
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.graph.summands import missed_by, parts_of, sums_without_graph
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import begins_at, forward_of, users_files
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.second_run.cut_recorder import CONVERSIONS, COPIES, DETACHES
from graphdoc.capture.second_run.cuts import is_draw
from graphdoc.capture.tensors.facts import has_gradient, instances_of, is_leaf, parameters_of
from graphdoc.capture.tensors.number_facts import numbers_of
from graphdoc.capture.whatif.cut_places import is_said
from graphdoc.capture.whatif.functions import with_backward, with_own_backward
from graphdoc.capture.whatif.measure import CLEAR, EPS
from graphdoc.capture.whatif.moves import is_matrix, reach_of
from graphdoc.evidence import BYPASSED, NO_GRAPH, Evidence, Sign

# Parameters that an optimizer holds and that enter the loss only where a straight-through sum detaches them. In ``x +
# (z - x).detach()`` the value is that of ``z`` and the gradient that of ``x``. What ``z`` was looked up in, a
# codebook perhaps, needs a loss of its own, on ``z``. Looked at in a run that graphdoc starts by itself.

MOST_MODULES = 40


def forwards_around(torch: Any, parameters: set[int], cwd: str) -> list[dict[str, Any]]:
    """Where the program's own modules that contain these parameters begin their forward: a place as it is told."""
    found: dict[Any, dict[str, Any]] = {}
    for module in instances_of(torch.nn.Module):
        if len(found) >= MOST_MODULES:
            break
        code = forward_of(module)
        if code is not None and code not in found and any(id(p) in parameters for p in inside(module)):
            found[code] = begins_at(code, cwd)
    return list(found.values())


# Losses that go on without what they were built for: the graph behind them, or behind one of their terms, is cut.
# What is found is told as the failure that it would be if PyTorch raised an error for it: the same evidence, the same
# causes and the same fixes.

MOST_ENTERED = 200
MOST_SUSPECTS = 20
LATER = 4
"""The step after which parameters that were never reached are noted."""
HUNGRY = 5
"""Steps in a row without any gradient of an optimizer that had some before, until that is noted."""
MOST_PARTS = 6
"""Losses whose terms are looked at one by one."""


class Losses(Watch):
    """``covered-loss``: backward was called on a tensor that is its own beginning. ``constant-term``: one term of the
    loss has lost its graph; ``other`` is where it is added. ``cut-off``: parameters that are stepped and never reached,
    because what is computed from them is converted. ``bypassed``: ``stack`` is a straight-through sum, ``parameters``
    those that receive nothing by it and ``facts["behind"]`` those that receive the gradient instead, ``optimizer``
    holds them; ``other`` is the latest backward call.
    ``suspect-term``, ``suspect-unreached``, ``suspect-zero`` and, of a program with a backward of its own,
    ``suspect-function`` ask for a second run."""

    def set_up(self) -> None:
        self._witness = self._audit.witness
        self.watch = TermWatch(self._audit.witness) if self._audit.early else None
        self._stepped = 0
        self._suspects: dict[Any, Sign] = {}
        self._idle: dict[int, dict[int, Fingerprint]] = {}
        """By optimizer: the parameters that no call has reached, by their positions, as they were when noted."""
        self._zero: dict[int, set[int]] = {}
        """By optimizer: parameters (ids) whose gradient was zero in each step that was looked at."""
        self._none: dict[int, set[int]] = {}
        """The same of those that had no gradient in the latest of these steps."""
        self._largest = 0.0
        """The size of the largest loss so far."""
        self._asked: set[Any] = set()
        """By operation and place: what made leaves that backward calls have reached."""
        self._hungry: dict[int, tuple[int, int]] = {}
        """By optimizer: how many steps in a row found no gradient at all, each behind another backward call, and the
        index of the latest."""
        self._trains = True
        """Whether the latest call that was looked at has reached what an optimizer holds."""
        self._parts = 0
        """Losses whose terms were looked at one by one."""
        self.going_back: dict[Any, tuple[Record, frozenset[int]]] = {}
        """By place: numbers that leave a graph and go on in it; what is lost with them is measured."""
        self._entered: deque[Record] = deque(maxlen=MOST_ENTERED)
        """Where what the losses take as constants had left its graph, by no word of the author's; the latest last."""
        self.older = weakref.WeakSet(functions.subclasses(self._audit.torch.autograd.Function))
        """Functions that were there before the program began: none of them is the program's."""
        words = self._audit.witness.mode.split(":")
        self._measuring = "whatif" in words
        self.measured: dict[int, set[int]] = {}
        """By optimizer: positions of parameters on which a loss was measured to depend."""
        self.settled = False
        """Nothing more is measured."""
        self._unmeasured: Evidence | None = None
        """What is told of parameters that are cut off where no measure says that."""

    def called(self, call: EngineCall) -> None:
        audit, torch = self._audit, self._audit.torch
        first = call.outputs[0] if len(call.outputs) == 1 else None
        self._trains = any(i in call.leaves for seen in audit.journal.optimizers.values() for i in seen.parameters)
        if not audit.early and isinstance(first, torch.Tensor) and first.is_cpu and first.numel() == 1:
            loss = numbers_of(first)
            self._largest = max(self._largest, abs(float(loss)) if loss is not None else 0.0)
        if not call.leaves and isinstance(first, torch.Tensor) and first.numel() == 1 and self._is_covered(first):
            if self._again("covered") and self._stepped:
                self._tell(call.noted, Sign("covered-loss"), [], outputs=call.outputs)
        else:
            roots = call.roots
            if self.watch is not None:
                self.watch.differentiating(roots)
                left = self.watch.cuts_behind(call.order.nodes)
                self._entered += [r for r in reversed(left) if is_draw(r) or not is_said(r)]
                made = (self.watch._of(leaf) for leaf in call.leaves.values())
                self._asked.update(r.place for r in made if r is not None)
            if not audit.early:
                self._suspect(call.noted, roots)
            for records, at in self.watch.added(roots) if self.watch is not None else ():
                if self.watch is not None and self._again(site_of(records[0].raw)):
                    beside = any(at is here for _, here in self.watch.residuals.values())
                    sign = Sign("constant-term", other=self._frames(at), facts={"beside": beside})
                    self._tell(call.noted, sign, records, outputs=call.outputs)
            drawn = [(r, behind, None) for r, behind in self._drawn_into(call.noted, roots)]
            passed = self.watch.passed_by(roots, audit.journal.held()) if self.watch is not None else []
            for record, behind, unused in (*drawn, *passed):
                if self._again(("part", unused is None, record.place)):
                    facts: dict[str, Any] = {"part": True}
                    if unused is not None:
                        facts["idle_sum"] = self._line(unused)
                    self._tell(call.noted, Sign("cut-term", facts=facts), [record], behind, call.outputs)
        if self.watch is not None:
            self.watch.since = call.noted[0]
            self.watch.begin()

    def _suspect(self, noted: Noted, roots: list[Any]) -> None:
        """Note where the loss is a sum with something that has no graph: a plain number perhaps."""
        here: dict[Any, int] = {}
        for node in sums_without_graph(roots):
            kept = stacks.stack_of(node)
            if kept is not None and len(self._suspects) < MOST_SUSPECTS:
                at = site_of(kept)
                if at not in self._suspects:
                    self._suspects[at] = self._sign_at("suspect-term", kept, event=noted[0], weak=True)
                self._suspects[at].count += 1
                here[at] = here.get(at, 0) + 1
                if here[at] > 1:  # a sum that starts from a number has one such addition, the first
                    self._suspects[at].facts["several"] = True

    def _drawn_into(self, noted: Noted, roots: list[Any]) -> list[tuple[Record, frozenset[int]]]:
        """Draws by which one term of the loss misses what others reach; the first run only notes that one does."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            return []
        held = self._journal.held()
        if self.watch is not None:
            self.going_back.update((r.place, (r, b)) for r, b in self.watch.going_back(roots, held))
            return self.watch.drawn_into(roots, held)
        parts = parts_of(roots)
        missed = {i for part in parts for i in missed_by(part, parts, held)}
        if missed:
            facts = {"forwards": forwards_around(self._audit.torch, missed, self._witness.cwd)}
            sign = self._sign_at("suspect-part", noted, count=OFTEN, weak=True, facts=facts)
            self._suspects.setdefault("part", sign)
        return []

    def _is_covered(self, tensor: Any) -> bool:
        """Whether this is a loss that only asks for gradients: a plain zero is what a program puts where a batch has
        nothing to learn from, and one with a hook has its gradient taken further by that hook."""
        torch = self._audit.torch
        if not tensor.requires_grad or not is_leaf(tensor) or isinstance(tensor, torch.nn.Parameter):
            return False
        if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
            return False
        return (number := numbers_of(tensor)) is not None and float(number) != 0.0

    def _again(self, what: Any) -> bool:
        return self._often(what, OFTEN) and self._evidence is None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        self._stepped += 1
        if seen.steps == 1 and self.watch is not None:
            self.watch.look_again()  # what an optimizer trains that was made when others had trained is not seen yet
        if seen.steps <= OFTEN or self._evidence is not None:
            return
        hungry = self._without(optimizer, seen)
        if self.watch is None:
            if seen.steps in (LATER - 1, LATER) or ("zero", seen.id) in self._suspects:
                self._suspect_zero(optimizer, seen)
            if seen.steps == LATER or ("unreached", seen.id) in self._suspects:
                self._suspect_unreached(optimizer, seen)
            return
        missed = self._missed(optimizer) | hungry
        if self.watch.leaves or self.watch.switched_off:
            self._tell_bypassed(optimizer, seen, missed, self.watch.estimators.values())
            self._tell_missed(self._cut_off(missed, hungry), missed, optimizer, seen, bool(hungry))
        if missed and self._evidence is None:
            entered = [(r, r.behind) for r in self._entered if r.behind & missed and not r.beside]
            self._tell_missed(entered, missed, optimizer, seen, False)
        self.watch.stepped()

    def _tell_bypassed(self, optimizer: Any, seen: Seen, missed: set[int], sums: Collection[Estimator]) -> None:
        """An optimizer has stepped without ever having reached ``missed``: does such a sum detach any of them?"""
        met = missed.intersection(i for s in sums for i in s.missed) if not self._found else set()
        held = ((id(p), numbers_of(p)) for p in parameters_of(optimizer) if id(p) in met)
        sizes = [(i, float(numbers.double().abs().sum())) for i, numbers in held if numbers is not None]
        # Steps between which its values have stayed what they were: nobody updates it by hand.
        still = {one[0] for one in sizes if self._often(one, 1 + OFTEN)}
        last = self._journal.latest("backward")
        if still and last is not None:
            one = next(s for s in sums if s.missed & still)
            sign = self._sign(BYPASSED, one.at, last, still, optimizer=seen.id, count=seen.steps)
            sign.facts["behind"] = self._audit.named(one.within)
            self._report(sign)

    def wants(self, seen: Seen) -> bool:
        return self._hungry.get(seen.id, (0, -1))[0] > 0 or ("unreached", seen.id) in self._suspects

    def _without(self, optimizer: Any, seen: Seen) -> set[int]:
        """The ids of what this optimizer is to train, where it has found a gradient before and now finds none at all,
        although a backward call, which reached nothing that is trained, stands before each of its steps."""
        steps, before = self._hungry.get(seen.id, (0, -1))
        if has_gradient(optimizer):
            self._hungry[seen.id] = 0, before
            if ("hungry", seen.id) in self._suspects:
                self._suspects["hungry", seen.id].facts.clear()
            return set()
        mine = [p for p in parameters_of(optimizer) if p.requires_grad]
        last = self._journal.latest("backward")
        had = self._journal.with_grad
        found = any(had.get(id(p)) or id(p) in self._audit.reached for p in mine)
        # Of two that hold the same, it may have been the other one that has found them.
        if last is None or last.index == before or not found or self._journal.is_double(seen):
            return set()
        self._hungry[seen.id] = steps + 1, last.index
        if steps == 0:
            self._witness.looking = True  # at what the next calls reach
            if self.watch is not None:
                self.watch.look_again()
        elif steps + 1 == HUNGRY and self.watch is None and not self._trains:
            sign = self._sign_at("suspect-hungry", last, optimizer=seen.id, count=HUNGRY, weak=True)
            if not any(had.get(id(p)) for p in mine):  # what other calls give them has never been used
                sign.facts["positions"] = [i for i, p in enumerate(parameters_of(optimizer)) if p.requires_grad]
            self._suspects["hungry", seen.id] = sign
        return set() if self._trains or steps < OFTEN else {id(p) for p in mine}

    def _cut_off(self, missed: set[int], hungry: set[int]) -> list[tuple[Record, frozenset[int]]]:
        """The cuts behind which such parameters lie and whose numbers have been used, those that were written as cuts
        before what was not recorded."""
        assert self.watch is not None
        leaves, off = (
            [(r, behind) for r, behind in found.items() if behind & missed]
            for found in (self.watch.leaves, self.watch.switched_off)
        )
        used = self.watch.used() if leaves or off else set[Record]()
        cut = [(r, b) for r, b in leaves if r in used or not r.recording]  # the rest is looked at by people
        cut = [(r, b) for r, b in cut if not self.watch.goes_on(r)]
        if hungry and not cut:
            # NumPy's and Python's arithmetic is not seen; that nothing of it has a graph in the end, is.
            cut = [(r, b) for r, b in leaves if r.op in CONVERSIONS or r.converted]
        # A leaf that no backward call has reached is in no loss.
        cut = [(r, b) for r, b in cut if r.op != COPIES or r.place in self._asked]
        if cut and not cut[-1][0].recording:  # a block ran unrecorded, and with it all of its operations
            whole = frozenset().union(*(b for r, b in self.watch.leaves.items() if not r.recording))
            cut[-1] = cut[-1][0], cut[-1][1] | whole
        return cut or [(r, b) for r, b in off if r in used]

    def _tell_missed(
        self, cut: list[tuple[Record, frozenset[int]]], missed: set[int], optimizer: Any, seen: Seen, before: bool
    ) -> None:
        """Tell of these parameters, which are stepped and never reached, where such cuts, each with the leaves behind
        it, are seen again and again. ``before``: they had gradients in an earlier phase, or other calls give them
        gradients that no step has used."""
        last = self._journal.latest("backward")
        if len(cut) < OFTEN or last is None:
            return
        # Who detaches one number in two places means one of them perhaps: not that which leaves a term without graph.
        terms = {r.place for records, _ in self.watch.terms.values() for r in records} if self.watch else set()
        cut = [(r, b) for r, b in cut if r.place in terms] or cut
        record, behind = cut[-1]
        # Each leaf that numbers were copied into asks for a gradient of its own: one of several is a part of it.
        leaves = {r.place: r for r, _ in cut if r.recording and r.op == record.op == COPIES}
        leaves.pop(record.place, None)
        had = self._journal.with_grad
        sign = Sign("cut-off", facts={"before": True, "cleared": not any(map(had.get, missed))} if before else {})
        if not before:  # the first run knows whether their turn came later
            held, idle = parameters_of(optimizer), behind & missed
            sign.facts |= {"optimizer": seen.id, "positions": [i for i, p in enumerate(held) if id(p) in idle]}
            if is_said(record) and any(had.get(i) for i in behind - missed):  # it works on what learns beside it
                sign.facts["said"] = True
        self._tell(last.noted, sign, [record, *leaves.values()], behind & frozenset(missed))

    def _missed(self, optimizer: Any) -> set[int]:
        """Ids of an optimizer's parameters that never had a gradient and were reached by no backward call."""
        had, reached = self._journal.with_grad, self._audit.reached
        without = [p for p in parameters_of(optimizer) if p.grad is None and p.requires_grad]
        return {id(p) for p in without if id(p) not in reached and not had.get(id(p))}

    def _suspect_zero(self, optimizer: Any, seen: Seen) -> None:
        """Note parameters whose gradient is zero, or what rounding may leave beside the largest loss, in two steps that
        follow one another, or that have none in one of them; later forget where they stand, if they get one."""
        # What is added to every value alike may well cancel out: a bias in the difference of two means.
        every = [(i, p) for i, p in enumerate(parameters_of(optimizer)) if p.dim() > 1]
        sign = self._suspects.get(("zero", seen.id))
        if sign is not None:
            every = [(i, p) for i, p in every if i in sign.facts["positions"]]
        mine = [p for _, p in every if p.grad is not None and p.grad.is_cpu]
        least = CLEAR * EPS * self._largest
        sizes = {id(p): float(g.double().norm()) for p in mine if (g := numbers_of(p.grad)) is not None}
        own = [(p, n) for p in mine if id(p) in sizes and (n := numbers_of(p)) is not None]  # no rank waits for another
        zero = {id(p) for p, numbers in own if sizes[id(p)] * reach_of(numbers) <= least * is_matrix(p)}
        none = {id(p) for _, p in every if p.grad is None}
        if sign is not None:
            sign.facts["positions"] = [i for i, p in every if id(p) in zero | none]
            return
        before = self._zero.get(seen.id, zero)
        self._zero[seen.id] = (zero | none) & before | zero & self._none.get(seen.id, set())
        self._none[seen.id] = none
        if seen.steps == LATER and self._zero[seen.id]:
            sign = Sign("suspect-zero", optimizer=seen.id, count=OFTEN, weak=True)
            sign.facts["positions"] = [i for i, p in every if id(p) in self._zero[seen.id]]
            self._suspects["zero", seen.id] = sign

    def _suspect_unreached(self, optimizer: Any, seen: Seen) -> None:
        """Note parameters without gradient, with the places of the modules that they belong to; and later forget those
        whose turn has come: a memory has filled up, a second network begins to learn, one is fitted by hand."""
        if ("unreached", seen.id) in self._suspects:
            self._forget_used(seen.id)
            return
        missed, last = self._missed(optimizer), self._journal.latest("backward")
        if missed and self._audit.reached and last is not None:
            around = forwards_around(self._audit.torch, missed, self._witness.cwd)
            sign = self._sign_at("suspect-unreached", last, optimizer=seen.id, count=OFTEN, weak=True)
            every = enumerate(parameters_of(optimizer))
            self._idle[seen.id] = {i: Fingerprint(p, one=True) for i, p in every if id(p) in missed}
            sign.facts = {"forwards": around, "positions": [*self._idle[seen.id]]}
            self._suspects["unreached", seen.id] = sign

    def _forget_used(self, ident: int) -> None:
        """Forget those of an optimizer's that have been given a gradient since, or other numbers."""
        had, reached, idle = self._journal.with_grad, self._audit.reached, self._idle[ident]
        alive = [(i, p) for i, read in idle.items() if (p := read.ref()) is not None]
        used = {
            i
            for i, p in alive
            if p.grad is not None or id(p) in reached or had.get(id(p)) or idle[i].changed() is not None
        }
        positions = self._suspects["unreached", ident].facts["positions"] = [i for i in idle if i not in used]
        self._idle[ident] = {i: idle[i] for i in positions}
        if not positions:
            del self._suspects["unreached", ident], self._idle[ident]

    # -- telling -------------------------------------------------------------------------------------------------

    def tell_cut(self, noted: Noted, kind: str, record: Record, behind: frozenset[int], idle: bool) -> None:
        """Tell that the backward call ``noted`` goes on without what ``record`` has cut off, of which these lie
        behind. ``idle``: no optimizer holds all of what it goes on to."""
        if self._evidence is None:
            # Another call may give them gradients, which are cleared: what was seen is that no step has one.
            self._tell(noted, Sign(kind, facts={"at_steps": True, "idle": idle}), [record], behind)

    def is_wanted_as_number(self, place: Any) -> bool:
        """Whether what is converted at this place goes on with its graph beside. A tensor that is detached may go on
        too, into its own norm for instance, and yet reach no loss."""
        watch = self.watch
        at = [r for r in watch.leaves if r.place == place] if watch is not None else []
        return watch is not None and any((r.op in CONVERSIONS or r.converted) and watch.goes_on(r) for r in at)

    def tell_measured(self, sign: Sign, records: list[Record], behind: frozenset[int] = frozenset()) -> None:
        """Tell of the latest backward call, unless something has been told: that steps go on without what these
        operations have cut off, on which a loss was measured to depend; or that it is a term, added at the sign's other
        place, that no gradient knows of."""
        last, recorded = self._journal.latest("backward"), self._unmeasured
        facts = recorded.signs[0].facts if recorded is not None else {}
        known = recorded is not None and any(c.reason != "unknown" for c in recorded.cuts)
        same = known and facts["optimizer"] == sign.optimizer and {*facts["positions"]} & {*sign.facts["positions"]}
        # No place is told by what is but the author's word, nor by a draw that came out otherwise.
        words = same and not facts["said"] and (sign.facts["said"] or is_said(records[0]))
        if self._evidence is None and same and (words or (sign.facts["measured"][2] and is_draw(records[0]))):
            facts["measured"] = sign.facts["measured"]
            self._evidence = recorded
            self._audit.tell_early()
        elif self._evidence is None and last is not None:
            self._tell(last.noted, sign, records, behind)

    def _tell(
        self, noted: Noted, sign: Sign, cuts: Iterable[Record], behind: frozenset[int] = frozenset(), outputs: Any = ()
    ) -> None:
        records = [*cuts]
        # A leaf of copied numbers that backward has reached asks for a gradient: that it is to go on needs no measure.
        copied = any(r.op == COPIES for r in records)
        waits = self._measuring and not copied and "positions" in sign.facts and "measured" not in sign.facts
        if waits and (self._unmeasured is not None or (self.settled and self._is_measured(sign.facts))):
            return
        if waits:
            sign.facts["said"] = any(map(is_said, records))

        def add(evidence: Evidence, autopsy: Autopsy) -> None:
            evidence.failing_event = noted[0]
            self._witness.fill(evidence, autopsy, [], outputs)
            names = autopsy.census.parameter_names
            if self.watch is not None:
                for record in records:
                    cut = self.watch._cut(record, True, autopsy, alike=[record])
                    above = (r for r in records_behind([record]) if not r.recording and r.op not in DETACHES)
                    further = behind or frozenset().union(*(r.behind for r in above))  # nothing was recorded there
                    cut.behind = sorted({*cut.behind, *(names[i] for i in further if i in names)})
                    evidence.cuts.append(cut)
            sign.parameters = evidence.cuts[0].behind if evidence.cuts else []
            if behind:  # more may lie behind the cut, and be reached in another way
                sign.parameters = sorted(names[i] for i in behind if i in names)
            sign.count = OFTEN
            evidence.extras["loss_terms"] = [[i] for i in range(len(evidence.cuts))] if behind else []
            self._audit.names.update(names)

        told = as_if(self._audit, noted, NO_GRAPH, sign, [], add=add)
        if waits:
            self._unmeasured = told
        else:
            self._evidence = told
            self._audit.tell_early()

    def _is_measured(self, facts: dict[str, Any]) -> bool:
        """Whether a loss was measured to depend on some of the parameters that these facts are about."""
        return not self.measured.get(facts["optimizer"], set()).isdisjoint(facts["positions"])

    def evidence(self) -> Evidence | None:
        if self._unmeasured is not None and (self.settled or self._audit.over):
            if not self._is_measured(self._unmeasured.signs[0].facts):
                self._evidence = self._evidence or self._unmeasured
            self._unmeasured = None
        return self._evidence

    def signs(self) -> list[Sign]:
        if self.evidence() is not None and self._evidence is not None:
            told = self._evidence.signs[:1]
            return [*told, *(s for s in self._found if not {*s.parameters} <= {n for t in told for n in t.parameters})]
        for ident in [*self._idle]:
            self._forget_used(ident)  # another optimizer may have come to them
        zeros = {i for ids in self._zero.values() for i in ids}
        known = zeros <= self._audit.deadends.told | self._audit.flattened.told
        suspects = [s for s in self._suspects.values() if s.count >= OFTEN]
        stepped = self._journal.trained
        for sign in suspects:
            if sign.kind == "suspect-term":  # the loss may be that of any of them
                sign.facts["optimizers"] = stepped
        if self.watch is None and stepped and (with_own_backward(self._audit) or with_backward(self._audit.torch)):
            facts = {"sources": users_files(), "optimizers": stepped}
            suspects.append(Sign("suspect-function", weak=True, facts=facts))
        return [*self._found, *(s for s in suspects if s.kind != "suspect-zero" or not known)]
