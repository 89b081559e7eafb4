"""Which operations keep a loss's dependence on parameters out of the graph, and where a gradient ends behind it.

A value that leaves the graph is held in a fork at what it is when nothing has moved. Where the loss then stays as well,
it depends by way of that value, whatever became of it between: a number in Python, an array, a file in memory.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import deque
from collections.abc import Collection, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from graphdoc.capture.events.cut_records import NAMES, NEAR, Record, is_users, records_behind, watch_wrapped
from graphdoc.capture.graph import functions
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.summands import sums_without_graph
from graphdoc.capture.graph.walk import DEEP, nodes_behind, reached, users_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import shown_file
from graphdoc.capture.places.frames import frames_of, plain, site_of
from graphdoc.capture.second_run.cut_recorder import CONVERSIONS, DETACHES, name_of
from graphdoc.capture.second_run.cuts import CutWatch
from graphdoc.capture.tensors.facts import storage_of
from graphdoc.capture.tensors.number_facts import numbers_of
from graphdoc.capture.trials.reference import is_recorded
from graphdoc.capture.whatif.moves import FAR, UTMOST, anywhere, steps_for
from graphdoc.capture.whatif.window import ForkWatch, Move, Target

if TYPE_CHECKING:
    from graphdoc.capture.whatif.measure import Result
    from graphdoc.capture.witness import Witness


MOST_FORKS = 24
"""That look for the places among all by which a loss depends on parameters."""
MOST_ADDED = 6
"""Places that are looked at one by one for a term that is only added."""
MOST_HELD = 1_000
"""Places that are held all at once."""
MOST_OF_PLACE = 20
"""Of its latest records."""
MOST_VALUES = 4_000_000
"""Numbers that are kept of them."""
STAYS, CARRIES = 0.05, 0.05
"""Parts of the change of the loss: less is none, and so much of it is carried by a place."""


class CutLook(CutWatch):
    """Records one round of the program at every place where something with a graph gives something without."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self.on = False
        self.found: dict[Any, deque[Record]] = {}

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.on:
            super()._note(func, args, kwargs, result)

    def _make(self, name: str, args: Any, kwargs: Any) -> Record:
        record = super()._make(name, args, kwargs)
        # The forward of a custom Function records nothing, and has a backward of its own where it is given a graph.
        if self.on and record.origins and record.leaves and not is_recorded(torch):
            self.found.setdefault(record.place, deque(maxlen=MOST_OF_PLACE)).append(record)
        return record

    def holding(self, kept: Any, only: Collection[Any] | None = None) -> Held | None:
        """A watch that keeps what all, or ``only`` some, of these places give, or that holds it; None for no place."""
        numbers = {place: n for n, place in enumerate(self.found) if n < MOST_HELD}
        places = {place: n for place, n in numbers.items() if only is None or place in only}
        return Held(places, kept) if places else None

    def adding(self, kept: Any, place: Any) -> Added:
        """A watch that holds what one of these places gives at what was kept."""
        return Added({place: list(self.found).index(place)}, kept)

    def behind(self, parameters: set[int]) -> list[list[Record]]:
        """The records of each place behind which one of these parameters (ids) lies, in the order of the program."""
        return [list(rs) for rs in self.found.values() if any(r.behind & parameters for r in rs)]


class Held(TorchFunctionMode, ForkWatch):
    """In a fork: keeps what the operations at these places give, or holds it at what was kept."""

    def __init__(self, places: dict[Any, int], kept: dict[Any, Any] | None) -> None:
        super().__init__()
        self._names = {op for op, _ in places}
        self._places = places
        self._kept = kept
        self._values: dict[Any, Any] = {}
        self._counts: dict[int, int] = {}
        self._size = 0
        self._within = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return self._meet(name_of(func), args, kwargs, result)

    def __enter__(self) -> Any:
        if not self._names.isdisjoint(NAMES):
            watch_wrapped(torch, self._meet)  # for good: this is a fork, which ends with its answer
        return super().__enter__()  # type: ignore[no-untyped-call]

    def _meet(self, name: str, args: Any, _kwargs: Any, result: Any) -> Any:
        """What stands for the result of an operation; for its caller's caller."""
        if self._within or name not in self._names:
            return result
        given = result.detach() if name in NAMES else result
        self._within = True
        try:
            held = self._met(name, args, given)
        finally:
            self._within = False
        if held is given:
            return result
        return torch.nn.Parameter(held) if name == "Parameter" else held

    def _met(self, name: str, args: Any, result: Any) -> Any:
        number = self._places.get((name, site_of(stacks.stack_here(4))))
        if number is None:
            return result
        count = self._counts.get(number, 0)
        self._counts[number] = count + 1
        whole = args[0] if name == "__setitem__" else result
        if self._kept is None:
            self._values[number, count] = self._frozen(whole)
            return result
        if (number, count) not in self._kept:
            return result
        written = bool(args) and whole is args[0]
        with torch.no_grad():
            held = _thawed(whole, self._kept[number, count], written)
        return result if name == "__setitem__" else held

    def _frozen(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            numbers = numbers_of(value)
            self._size += int(value.numel())
            if numbers is None or self._size > MOST_VALUES:
                return None
            numbers = numbers.cpu().contiguous()
            size = numbers.numel() * numbers.element_size() if len(numbers.shape) < 65 else 0
            data = ctypes.string_at(numbers.data_ptr(), size) if size else b""
            return "tensor", str(value.dtype).rpartition(".")[2], tuple(value.shape), data
        if type(value).__name__ == "ndarray":
            self._size += int(value.size)
            return None if self._size > MOST_VALUES else ("array", value.dtype.str, tuple(value.shape), value.tobytes())
        if isinstance(value, tuple):
            return "tuple", [self._frozen(v) for v in value]
        return ("number", value) if isinstance(value, float | int | bool | list) else None

    def told(self) -> Any:
        return list(self._values.items())


def _thawed(value: Any, kept: Any, written: bool) -> Any:
    """A value as it was kept: put into what was written in place, else a new one: what is there may be a look into
    memory that belongs to the graph as well."""
    if kept is None:
        return value
    if kept[0] == "number":
        return kept[1]
    if kept[0] == "tuple":
        held = [_thawed(v, k, written) for v, k in zip(value, kept[1], strict=True)]
        return value if all(h is v for h, v in zip(held, value, strict=True)) else type(value)(held)
    if isinstance(value, torch.Tensor) and value.requires_grad and not written:
        return value  # of several results one has a graph
    _, dtype, shape, data = kept
    if kept[0] == "array":
        numpy = sys.modules["numpy"]
        return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
    old = torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)).reshape(shape) if data else torch.empty(shape)
    return value.copy_(old) if written else old


class Added(Held):
    """The same, and where a loss is a sum with a term that has no graph."""

    def __init__(self, places: dict[Any, int], kept: dict[Any, Any]) -> None:
        super().__init__(places, kept)
        self._sums: list[Any] = []

    def began(self, outputs: Any) -> None:
        sums = sums_without_graph(tensor_roots(outputs))
        self._sums += [stacks.stack_of(n) for n in sums if type(n).__name__ == "AddBackward0"]

    def told(self) -> Any:
        raw: Any = next((r for r in self._sums if r is not None), [])
        return self.frames(raw)


def added(
    target: Target, result: Result, look: CutLook
) -> Generator[Move, Any, tuple[list[Record], list[dict[str, Any]]] | None]:
    """The conversion whose numbers are added to a loss and do nothing else there, and that sum: in a fork they are what
    they are where the parameters have moved, and a loss is another while every gradient is the same bit by bit. What
    torch computes of a value that has left its graph is recorded: that needs no measure."""
    every = set(range(len(target.parameters)))
    found = [(rs, rs[-1]) for rs in look.behind({id(p) for p in target.parameters})]
    places = [rs for rs, r in found if (r.op in CONVERSIONS or r.converted) and not is_said(r)]
    if not places or result.base is None:
        return None
    directions = anywhere(target.torch, target.parameters, every)
    moved = yield Move(max(steps_for(target.parameters)), directions, watch=look.holding(None))
    calls = result.base["calls"]
    given = [[g.clone() for g in target.given.read(i)] for i in range(len(calls))]
    for records in places[:MOST_ADDED] if isinstance(moved, dict) else ():
        told = yield Move(first=True, watch=look.adding(dict(moved["watch"]), records[0].place))
        now = [target.given.read(i) for i in range(len(calls))]
        pairs = [p for a, b in zip(given, now, strict=True) for p in zip(a, b, strict=True)]
        if _change(told, result.base) and told["watch"] and all(torch.equal(a, b) for a, b in pairs):
            return records, told["watch"]
    return None


def is_said(record: Record) -> bool:
    """Whether an author says by this that nothing shall learn through it, and uses it for nothing else: a conversion
    has to be preceded by a ``detach``. Who has a graph recorded in front of a ``no_grad`` in which no parameter is used
    may well want it."""
    inside = [r for r in records_behind([record], NEAR) if not r.recording and r.op not in DETACHES]
    taken = [origin.op for r in inside for origin in r.origins]
    unrecorded = not record.recording and not (taken and all(taken))
    return (record.op in ("detach", "detach_") or unrecorded) and not record.converted


def locate(
    target: Target, chosen: set[int], result: Result, look: CutLook
) -> Generator[Move, Any, tuple[list[list[Record]], str]]:
    """The places by which the losses depend on the chosen parameters, the strongest first; or why none are known. What
    cannot be held is known too where every operation that takes them stands in one block without recording."""
    places = look.behind({id(target.parameters[i]) for i in chosen})
    if not places:
        return [], "no operation was seen by which their values leave the graph"
    directions = anywhere(target.torch, target.parameters, chosen)
    step, moved, free = 0.0, None, None
    for step in (max(steps_for(target.parameters)), *FAR, UTMOST):
        free = yield Move(step, directions)
        moved = _change(free, result.base)
        if moved != 0.0:
            break

    def held_before(number: int) -> Move:
        """All places before this one are held. What comes by way of one shows only where those behind it are free."""
        held = [rs[0].place for rs in places[:number]]
        return Move(step, directions, watch=look.holding(result.kept, held))

    told = {0: free, len(places): (yield held_before(len(places)))}
    rest = _change(told[len(places)], result.base)
    if not moved or rest is None:
        return [], "the places where their values leave the graph could not be held"
    if rest > STAYS * moved and None in result.kept.values():  # too large to be held
        within = {r.switch if not r.recording else None for rs in places for r in rs}
        one = next(iter(within)) if len(within) == 1 else None
        if one is not None and is_users(one):
            return places, ""
        return [], "what their values became where they leave the graph is too large to be held"
    if rest > STAYS * moved:
        return [], "the loss depends on them by another way than by the operations that were seen"
    found: dict[int, float] = {}
    pending = [(0, len(places))]
    while pending:
        first, end = pending.pop(0)
        effect, middle = _change(told[first], told[end]), (first + end) // 2
        if effect is None or effect <= CARRIES * moved:
            continue
        if middle == first:
            found[first] = effect
        elif len(told) >= MOST_FORKS:
            return [], f"their values leave the graph at {len(places)} places, too many to look at one by one"
        else:
            told[middle] = yield held_before(middle)
            pending += [(first, middle), (middle, end)]
    said = [n for n in found if is_said(places[n][-1])]
    if said and len(said) < len(found):  # what comes by way of the others may all come through these
        held = look.holding(result.kept, [places[n][0].place for n in said])
        rest = _change((yield Move(step, directions, watch=held)), result.base)
        found = {n: found[n] for n in said} if rest is not None and rest <= CARRIES * moved else found
    strongest = sorted(found, key=lambda n: -found[n])
    return [places[n] for n in strongest], "" if found else "no single place carries what the loss depends on"


def _change(told: Any, base: Any) -> float | None:
    """How much the losses of a fork differ from those of another, or of the first, all together."""
    if isinstance(told, str) or isinstance(base, str) or len(told["calls"]) != len(base["calls"]):
        return None
    return float(sum(abs(c["value"] - b["value"]) for c, b in zip(told["calls"], base["calls"], strict=True)))


# Where a gradient ends that exists behind the loss: seen node by node while a backward call of a fork runs.

MOST_ENDS = 8


class Dying(ForkWatch):
    """A watch of the backward calls between two steps. It tells the nodes at which the gradient of these parameters
    ends: ``ends`` where a node is given one and passes nothing on, ``cancels`` where what several pass on adds up to
    zero; and whether another leaf of the graph ``shares`` their memory. What is no more than the part ``least`` of what
    it is made of is rounding, and counts as zero."""

    def __init__(self, target: Target, chosen: set[int], least: float = 0.0) -> None:
        self._target = target
        self._leaves = {id(target.parameters[i]) for i in chosen}
        self._chosen = chosen
        self._nodes: list[tuple[Any, list[Any]]] = []
        self._least = least
        self._given: dict[Any, float] = {}
        self._passed: dict[Any, list[float]] = {}
        self._sums: dict[Any, float] = {}
        """What nodes are given, if nothing of it cancels."""
        self._by_zero: set[Any] = set()
        """The products with zeros that have no graph: nothing can come through, whatever the other side is."""
        self._keep: list[Any] = []
        self.deep = False

    def began(self, outputs: Any) -> None:
        roots = [t.grad_fn for t in outputs if getattr(t, "grad_fn", None) is not None]
        for count, (node, following) in enumerate(nodes_behind(roots)):
            if count >= DEEP - 1:
                self.deep = True
                return
            self._nodes.append((node, [n for n, _ in following]))
            self._keep.append(node.register_prehook(partial(self._before, node)))
            self._keep.append(node.register_hook(partial(self._after, node, self._nodes[-1][1])))

    def _before(self, node: Any, grads: Any) -> None:
        given = self._size(grads, self._sums.get(node, 0.0))
        self._given[node] = max(self._given.get(node, 0.0), *given, 0.0)

    def _after(self, node: Any, following: list[Any], passed: Any, _given: Any) -> None:
        given = self._given.get(node, 0.0)
        self._passed[node] = self._size(passed, given) if given else [0.0] * len(passed)
        for n, size in zip(following, self._passed[node], strict=False):
            self._sums[n] = self._sums.get(n, 0.0) + size
        if given and not any(self._passed[node]) and _is_by_zero(node):
            self._by_zero.add(node)

    def _size(self, gradients: Any, beside: float) -> list[float]:
        """The largest number of each; 0 for what is rounding beside that. What is no number is larger than any."""
        known = (g.detach() if g is not None and g.numel() else None for g in gradients)
        dense = (g if g is None or g.layout is torch.strided else g.to_dense() for g in known)
        sizes = [float(g.abs().nan_to_num(math.inf).max()) if g is not None else 0.0 for g in dense]
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
                if whole not in adding and self._passes(whole, sums):
                    continue  # a shift that both sides of a difference have in common
                out.append({**self._place(whole, "cancels"), "inner": self._place(adding[-1], "")["frames"]})
                out[-1]["equal"] = whole not in adding
            elif given and following and node in self._passed and not any(on):
                out.append({**self._place(node, "ends"), "by_zero": node in self._by_zero})
        leaves = {id(v): v for n, _ in self._nodes if (v := getattr(n, "variable", None)) is not None}
        positions = [i for i in sorted(self._chosen) if id(self._target.parameters[i]) in leaves]
        memory = {storage_of(self._target.parameters[i]) for i in self._chosen}
        shares = any(i not in self._leaves and storage_of(v) in memory for i, v in leaves.items())
        return {"shares": shares, "ends": out[:MOST_ENDS], "deep": self.deep, "reached": positions}

    def _passes(self, whole: Any, sums: dict[Any, list[Any]]) -> bool:
        """Whether the two sides of a difference give a parameter something: they are not the same function then."""
        parts = ((n, adding) for n, adding in sums.items() if getattr(n, "variable", None) is not None)
        both = (adding for n, adding in parts if self._given.get(n) and len(adding) > 1)
        return any(_meeting(adding, sums) is whole for adding in both)

    def forget(self) -> None:
        """Take the hooks away: the graph may be used again."""
        for hook in self._keep:
            hook.remove()

    def _leading(self) -> set[Any]:
        """The nodes that lead to one of the parameters."""
        leaves = [n for n, f in self._nodes if not f and id(getattr(n, "variable", None)) in self._leaves]
        following = dict(self._nodes)
        parents = users_of(following, following.__getitem__)
        return set(reached(leaves, lambda n: parents.get(n, ())))

    def _place(self, node: Any, how: str) -> dict[str, Any]:
        kept = stacks.kept_in(node)
        frames = frames_of(kept, self.cwd) if isinstance(kept, stacks.Stack) else []
        cls = getattr(type(node), "_forward_cls", None)
        code = functions.backward_code(cls) if isinstance(cls, type) else None
        told: dict[str, Any] = {"op": str(node.name()), "how": how, "frames": plain(frames)}
        if isinstance(cls, type) and code is not None:
            told["function"] = functions.described(cls, code, node, shown_file(code.co_filename, self.cwd), frames)
            functions.count_inputs(told["function"], node)
        return told


def _is_by_zero(node: Any) -> bool:
    """Whether this is a product with a constant, a number or a mask, that is zero everywhere."""
    sides = [n for n, _ in node.next_functions]
    if type(node).__name__ != "MulBackward0" or sides.count(None) != 1:
        return False
    try:
        return not (node._saved_self if sides[0] is None else node._saved_other).any()
    except (AttributeError, RuntimeError):
        return False  # released, or written since


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
