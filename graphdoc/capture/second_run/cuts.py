"""Who cut: at which operations the graph of the failing loss ended, or that of each of its terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from graphdoc.capture.events.cut_records import DRAWS, Record, frames_of_place, is_users, is_wrapper, records_behind
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.graph.walk import reached, users_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file
from graphdoc.capture.places.frames import frames_of, plain, site_of
from graphdoc.capture.second_run.cut_recorder import CONVERSIONS, DETACHES, CutRecorder
from graphdoc.capture.tensors.facts import is_leaf
from graphdoc.evidence import Cut, Evidence

# What a loss without a graph is a sum of: the cuts on which each of its terms hangs, by what made it.

MOST_TERMS = 32
DEEPEST = 150

_SUMS = {
    *("add", "sub", "subtract", "radd", "rsub", "iadd", "isub", "add_", "sub_"),
    *("neg", "negative", "pos", "mean", "sum"),
}
_SAME = {"view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "double", "cpu", "cuda", "clone", "stack"}
_PRODUCTS = {"mul", "multiply", "rmul", "imul", "mul_", "div", "divide", "truediv", "rtruediv", "itruediv", "div_"}

Term = frozenset[int]
"""The ids of the cuts that stand in one term."""


def terms_of(starts: Iterable[Record]) -> list[Term]:
    """The terms of a loss as far as sums and products tell; what any other operation has made is one term.

    ``-log_prob * (returns - value) - entropy`` hangs on the cuts of the log-probability and of the value together in
    its first term, and on that of the entropy alone in its second.
    """
    known: dict[int, list[Term]] = {}
    out = [t for start in starts for t in _terms(start, known, 0)]
    return list(dict.fromkeys(out))


def _terms(record: Record, known: dict[int, list[Term]], depth: int) -> list[Term]:
    if record.origins:
        return [frozenset((id(record),))]
    if id(record) not in known:
        parts = [_terms(r, known, depth + 1) for r in record.inputs] if depth < DEEPEST else []
        known[id(record)] = _joined(record.op.strip("_") if record.op.startswith("__") else record.op, parts)
    return known[id(record)]


def _joined(op: str, parts: list[list[Term]]) -> list[Term]:
    if op in _SUMS | _SAME:
        found = [t for part in parts for t in part]
    elif op in _PRODUCTS:
        found = [frozenset()]
        for part in parts:
            found = [a | b for a in found for b in part] if part else found
    else:
        found = [frozenset().union(*(t for part in parts for t in part))]
    distinct = list(dict.fromkeys(t for t in found if t))
    return distinct if len(distinct) <= MOST_TERMS else [frozenset().union(*distinct)]


# Who cut: at which operations the graph of the failing loss ended, by what a second run has recorded.

MOST_CUTS = 20
MOST_CANDIDATES = 12
ARRAYS = {"numpy", "__array__", "tolist", "detach", "data"}
CONSTRUCTORS = {"tensor", "as_tensor", "new_tensor", "from_numpy", "FloatTensor", "asarray", "full", "scalar_tensor"}
COUNTS = {"histc", "histogram", "histogramdd"}
"""Results in floating point without a derivative. Where PyTorch gives zero (round, sign) the graph goes on."""


class CutWatch(CutRecorder):
    """Records a second run, and tells at its end where the graph of the failing loss ended."""

    def fill(self, evidence: Evidence, autopsy: Autopsy, _roots: list[Any], outputs: list[Any]) -> None:
        """Follow the failing loss back to every place where a graph ended, the nearest to the loss first."""
        starts = [r for t in outputs if (not t.requires_grad or is_leaf(t)) and (r := self._of(t)) is not None]
        chain = records_behind(starts)
        off = next((s for s in starts if not s.recording and s.switch is not None), None)
        # Where nothing is recorded, up to the loss itself, a detach cuts nothing off.
        moot = DETACHES if off is not None else set()
        groups = _by_place(r for r in chain if r.origins and (r.recording or r.op not in moot))[:MOST_CUTS]
        sloped = _with_a_slope(starts)
        for record, alike in groups:
            lost = self._reason(record) == "no-grad" and sloped.isdisjoint(alike)
            counted = _counted_out(chain, record) if lost else None
            if counted is not None:
                evidence.cuts.append(self._cut(counted, True, autopsy, "nondifferentiable", alike))
            else:
                evidence.cuts.append(self._cut(record, True, autopsy, alike=alike))
        which = {id(r): number for number, (_, alike) in enumerate(groups) for r in alike}
        terms = {frozenset(which[i] for i in term if i in which) for term in terms_of(starts)}
        evidence.extras["loss_terms"] = sorted(sorted(term) for term in terms)
        names = autopsy.census.parameter_names
        evidence.extras["unrecorded"] = [
            {"op": r.op, "stack": plain(frames_of(r.raw, autopsy.cwd)), "behind": self._behind_names([r], names)}
            for r in self._unrecorded.values()
        ]
        if not starts:
            self._fill_missed(evidence, autopsy)
            return
        evidence.extras["loss_made"] = [
            {"op": s.op, "stack": [vars(f) for f in frames_of(s.raw, autopsy.cwd)]} for s in starts[:3]
        ]
        frozen = [r for r in chain if r.parameters]
        # What requires gradients by now was frozen when it was used: it is what was to learn, not a loss's own network.
        frozen.sort(key=lambda r: not any(id(p) in autopsy.census.tensors and p.requires_grad for p in r.frozen))
        if evidence.cuts:
            # What was cut off may be a target, and what was frozen have been meant to learn.
            evidence.cuts += [self._cut(r, True, autopsy, "frozen") for r in frozen[:1]]
            return
        if off is not None:
            evidence.cuts.append(self._cut(off, True, autopsy, "no-grad"))
        elif frozen:
            evidence.cuts.append(self._cut(frozen[0], True, autopsy, "frozen"))
        elif recent := self._candidates(chain, evidence):
            evidence.cuts += [self._cut(r, False, autopsy, alike=alike) for r, alike in recent[:MOST_CANDIDATES]]
        else:
            begun = [r for r in reversed(chain) if not r.inputs]
            # Whole numbers, such as labels, can never require gradients.
            made = [r for r in begun if not r.integral] or begun or chain[-1:]
            trained = any(p.requires_grad and not p.buffer for p in evidence.parameters)
            # A value whose making was not seen may have come from the network after all, by a way round autograd.
            seen = not any(r.loose for r in chain)
            several = trained and not seen
            if several:  # the newest is the nearest to what this pass has put in the place of the loss
                made.sort(key=lambda r: -r.number)
            for first, _ in _by_place(made)[: 3 if several else 1]:
                cut = self._cut(first, not several, autopsy, "constant" if trained else "input")
                evidence.cuts.append(cut)

    def _fill_missed(self, evidence: Evidence, autopsy: Autopsy) -> None:
        """For an input that the graph does not lead to: who took its values out of it, and who let it require
        gradients only behind the output."""
        missed = autopsy.missed
        if missed is None:
            return
        graph = {f.sequence for f in autopsy.order}
        cuts = _by_place(self.entered_values.taken_out(missed, graph))
        evidence.cuts += [self._cut(r, True, autopsy, alike=alike) for r, alike in cuts[:MOST_CANDIDATES]]
        late = self.entered_values.flagged_late(missed, graph)
        if late is not None:
            for key, raw in zip(("flagged", "taken"), late, strict=True):
                evidence.extras["unreached"][key] = [vars(f) for f in frames_of(raw, autopsy.cwd)]

    def _candidates(self, chain: list[Record], evidence: Evidence) -> list[tuple[Record, list[Record]]]:
        """Conversions of something with a graph (and draws) since the last backward that ended well, newest first.

        Numbers went through Python or NumPy arithmetic, where identity is lost. A tensor of unknown origin can have
        come from an array, but not from ``item()``.
        """
        if not any(r.loose for r in chain):
            return []
        before = [e for e in evidence.events if e.kind == "backward" and e.index != evidence.failing_event]
        last = max((e.index for e in before if not e.failed), default=-1)
        numbers = any(r.numbers for r in chain)
        late = [r for r in reversed(self._recent) if r.event > last and (r.converted or r.op in DRAWS)]
        return _by_place(r for r in late if numbers or r.op in ARRAYS)

    def _cut(
        self, record: Record, certain: bool, autopsy: Autopsy, reason: str = "", alike: Iterable[Record] = ()
    ) -> Cut:
        names = autopsy.census.parameter_names
        op = record.written or record.op
        cut = Cut(reason or self._reason(record), op, frames_of(record.raw, autopsy.cwd), certain=certain)
        # A leaf has no operation of its own: the last one with a graph is told only where there was one.
        origin = next((o for o in record.origins if o.op), None)
        if origin is not None:
            cut.before, cut.before_op = frames_of(origin.raw, autopsy.cwd), origin.op
        if cut.reason == "missing-create-graph":
            cut.op = "autograd.grad"
        every = list(alike) or [record]
        # Where nothing is recorded each operation takes in parameters of its own.
        every += [r for r in records_behind(every) if not r.recording]
        cut.behind = self._behind_names(every, names)
        if cut.reason == "frozen":
            cut.behind = sorted({names[id(p)] for p in record.frozen if id(p) in names})
            at = next((at for _, at in record.parameters if at is not None), None)
            if at is not None:
                cut.switch, cut.switch_kind = frames_of(at, autopsy.cwd), "requires_grad"
        cut.listed, cut.nested, cut.mixed = record.listed, record.nested, record.mixed
        cut.element_dims, cut.choices = record.element_dims, record.choices
        cut.grad_mode = record.enabled and not record.recording
        if record.switch is not None:
            called = "" if is_users(record.switch) else _called_by_one(record)
            if cut.reason == "no-grad" and called and (record.integral or called in DRAWS or record.op in DRAWS):
                # A library computes this without recording (``Distribution.sample``): to the user it is one operation.
                cut.reason, cut.op = "nondifferentiable", called
            else:
                cut.switch, cut.switch_kind = frames_of_place(record.switch, autopsy.cwd), record.switch[0]
        return cut

    def _reason(self, record: Record) -> str:
        if record.op in CONVERSIONS or record.op in CONSTRUCTORS:
            return "conversion"
        if record.op in DETACHES or record.written:
            return "detach"
        if not record.recording:
            return "no-grad"
        if record.op == "grad":
            return "missing-create-graph"
        # An operation with a slope is never told to have none: how it lost its graph was not seen.
        return "nondifferentiable" if record.integral or record.op in COUNTS else "unknown"

    def _behind_names(self, records: Iterable[Record], names: dict[int, str]) -> list[str]:
        """The names of the parameters behind these operations, as far as they still live."""
        return sorted({names[i] for r in records for i in r.behind if i in names})


def _by_place(records: Iterable[Record]) -> list[tuple[Record, list[Record]]]:
    """The first record of each place and operation, with all of them."""
    known: dict[Any, list[Record]] = {}
    for r in records:
        known.setdefault(r.place, []).append(r)
    return [(same[0], same) for same in known.values()]


def _with_a_slope(starts: list[Record]) -> set[Record]:
    """The records of which more than whole numbers went into these: the others, indices of a maximum say,
    would leave them without a graph in any case."""
    return set(records_behind(starts, taken=lambda r: (Counter(r.inputs) - Counter(r.counted)).keys()))


def _counted_out(chain: list[Record], record: Record) -> Record | None:
    """The operation by whose whole numbers alone a record goes into what ``chain`` leads back from, nearest first."""
    upper = users_of(chain, lambda r: r.inputs)
    made_of = set(reached([record], lambda r: upper.get(r, ())))
    return next((c for r in chain for c in r.counted if c in made_of), None)


def is_draw(record: Record) -> bool:
    """Whether an operation draws random numbers, or stands alone in a library's function that does."""
    by_library = record.switch is not None and not is_users(record.switch)
    return record.op in DRAWS or (by_library and _called_by_one(record) in DRAWS)


def _called_by_one(record: Record) -> str:
    """The library function that both switches recording off and computes this, where the user's code called just one.

    Empty where the library, having switched off, called the user's code, and that computed this.
    """
    assert record.switch is not None
    same = site_of(record.raw) == site_of(stacks.stack_of_seen(record.switch[1]))
    return _called(record.raw.raw) if same else ""


def _called(raw: stacks.RawStack) -> str:
    """The name of the library function that the user's innermost frame has called."""
    name = ""
    for code in raw[::2]:
        if is_user_file(code.co_filename):
            break
        wrapper = is_wrapper(code) or code.co_name in ("_fn", "inner")
        if not code.co_filename.startswith("<") and not wrapper:
            name = code.co_name
    return name
