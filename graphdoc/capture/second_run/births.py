"""Where values that are not finite are born: operations and what they take, left-out elements, loaded data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, wraps
from itertools import compress
from math import isfinite
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file
from graphdoc.capture.places.stacks import kept_in
from graphdoc.capture.tensors import saved
from graphdoc.capture.tensors.number_facts import describe, is_finite, local_of, looked_at

# What is remembered of one operation whose result was not finite.


@dataclass(slots=True, eq=False)
class Record:
    """Where a value stopped being finite. ``kind``: birth, turn, given (no operation made it), received (of another
    process), constant or empty."""

    number: int
    kind: str
    func: str
    raw: Any
    shows: str
    parents: list[Record] = field(default_factory=list)
    node: str = ""
    made: Any = None
    step: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    spared: set[tuple[int, int]] = field(default_factory=set)
    """Choices that left out none of the bad elements: the stack of each and its input."""


# Which elements a ``where`` or a fill left out, told by its own backward: it sends zero to those.

CHOOSING = ("WhereBackward0", "NansumBackward0", "NanToNumBackward0", "MaskedFillBackward0")
MOST_CHOICES = 64
MOST_ELEMENTS = 1_000_000


class LeftOut:
    """The latest choices of the backward calls, by the stack of their forward."""

    def __init__(self) -> None:
        self._masks: dict[int, tuple[Any, dict[int, Any]]] = {}
        """By the stack of the forward, which is held: for each input of it, the elements that were left out."""

    def look(self, name: str, args: Any) -> None:
        """An operation has run: if it is the backward of a choice, keep which elements got zero."""
        if not name.startswith(("aten.where", "aten.masked_fill")):
            return
        node = torch._C._current_autograd_node()
        made = kept_in(node) if node is not None and str(node.name()) in CHOOSING else None
        side, mask = _zeroed(name, args) if made is not None else (0, None)
        if mask is None or mask.numel() > MOST_ELEMENTS:
            return
        _, known = self._masks.pop(id(made), (made, {}))
        self._masks[id(made)] = (made, known | {side: mask.clone()})
        if len(self._masks) > MOST_CHOICES:
            del self._masks[next(iter(self._masks))]

    def sparing(self, bad: Any) -> set[tuple[int, int]]:
        """The choices, by stack and input, that left out none of these elements; of another shape, none at all."""
        return {
            (ident, side)
            for ident, (_, masks) in self._masks.items()
            for side, mask in masks.items()
            if not bool((mask & bad).any() if mask.shape == bad.shape else mask.any())
        }


def _zeroed(name: str, args: Any) -> tuple[int, Any]:
    """Which input of a choice its backward computes the gradient of, and where that has zero in its place; None for
    what cannot be read.
    """
    if name.startswith("aten.masked_fill"):
        return 0, args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else None
    if len(args) < 3 or not all(isinstance(a, torch.Tensor) for a in args[:3]):
        return 0, None
    condition, one, other = args[:3]
    if condition.dtype is not torch.bool or (one.dim() == 0) == (other.dim() == 0):
        return 0, None
    return (1, condition) if one.dim() == 0 else (0, ~condition)


# What an elementary operation of PyTorch takes, writes to and where its numbers stand.


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in arguments: lists and dicts as operators take them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


def home_of(tensor: Any) -> int:
    """The memory that a tensor's numbers stand in; 0 where it has none of its own."""
    try:
        return int(local_of(tensor).untyped_storage()._cdata)
    except Exception:
        return 0


def is_whole(tensor: Any) -> bool:
    """Whether a tensor is all that its memory holds: what is written to it leaves nothing of what was there."""
    return int(tensor.numel() * tensor.element_size()) >= int(tensor.untyped_storage().nbytes())


def writes_over(func: Any) -> bool:
    """Whether an operator writes to what it is given."""
    return bool(_written(func))


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that an operator writes to."""
    return [args[n] if n < len(args) else kwargs.get(name) for n, name in _written(func)]


@cache
def _written(func: Any) -> list[tuple[int, str]]:
    """The positions and names of the arguments that it writes to, by its schema."""
    every = enumerate(func._schema.arguments)
    return [(n, a.name) for n, a in every if a.alias_info is not None and a.alias_info.is_write]


def is_constant(args: Iterable[Any]) -> bool:
    """Whether a number among the arguments is itself not finite: ``masked_fill(mask, -inf)``."""
    return any(isinstance(a, float) and not isfinite(a) for a in args)


def rows_out(inputs: list[Any]) -> int:
    """In how many rows along the last dimension all elements are -inf."""
    return max((int((t == -float("inf")).all(-1).sum()) for t in inputs if looked_at(t) and t.dim()), default=0)


_BETWEEN = ("_python_dispatch.py", "_ops.py", "eval_frame.py", "_compile.py")
"""Files of PyTorch whose functions stand between an operation's caller and a mode."""


def asked_by_user(raw: Any) -> bool:
    """Whether the user's own line asked for memory; a library's function fills what it asks for."""
    for code in raw.raw[::2]:
        name = code.co_filename
        if is_user_file(name):
            return True
        if not name.endswith(_BETWEEN):
            return False
    return False


# Where arrays and lists that are not finite become tensors, in the second run that looks for them.

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_LOADING = ("from_numpy", "tensor", "as_tensor", "frombuffer")


def watch_loading(places: dict[int, Any], most: int, trouble: Callable[[BaseException], None]) -> Callable[[], None]:
    """Keep in ``places``, by their memory, where at most so many of them were made; returns what undoes it."""
    theirs = {name: getattr(torch, name) for name in _LOADING}

    def noting(function: Any) -> Any:
        @wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            try:
                if len(places) < most and type(out) in PLAIN and looked_at(out) and not is_finite(torch, out):
                    alive = StorageWeakRef(out.untyped_storage())  # type: ignore[no-untyped-call]
                    places[home_of(out)] = stacks.stack_here(2), alive
            except Exception as e:
                trouble(e)
            return out

        return made

    vars(torch).update({name: noting(function) for name, function in theirs.items()})
    return lambda: vars(torch).update(theirs)


# Where values that are not finite are born: every operation's result is looked at, forward and backward. Part of a
# second run only. A result that is not finite though all that went in was is a birth; one that is nan though only
# infinities went in is a turn; anything else passes on what it was given. So a bad loss or gradient leads back to the
# operation that began it. Runs below autograd (``TorchDispatchMode``), so it sees PyTorch's elementary operations.

MOST_MADE = 300_000
MOST_BIRTHS = 400
MOST_CLONED = 1_000_000
"""Elements of a tensor that is copied before it is written over, to know what went in."""

_UNWRITTEN = ("aten.empty", "aten.new_empty")
_APART = ("DTensor", "AsyncCollectiveTensor")
_COLLECTIVES = ("_c10d_functional", "c10d.", "_c10d_functional_autograd")
_FILLS = ("aten.full", "aten.fill", "aten.new_full", "aten.masked_fill", "aten.scalar_tensor")


class Births(TorchDispatchMode):
    """``active`` switches the looking on; until then an operation costs a call.

    Args:
        trouble: told of an exception of our own; the program's operation has its result by then.
    """

    def __init__(self, trouble: Callable[[BaseException], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.active = False
        self._one_at_a_time = threading.RLock()
        """Of the threads that compute; the same one comes again where looking frees a tensor of the program's."""
        self._trouble = trouble
        self._number = 0
        self._flows: dict[int, tuple[Record, StorageWeakRef]] = {}
        """What began each memory that is not finite, until it is written anew. Nothing of it is held, only its number:
        what was dropped from here would be taken for something that no operation has made."""
        self._made: dict[int, tuple[str, Any, tuple[int, ...]]] = {}
        """By number: an operation, its place and the numbers of those that made what went in."""
        self._latest: dict[int, int] = {}
        """The operation that wrote to this memory last."""
        self._kept: dict[int, StorageWeakRef] = {}
        """Of each memory that is known by its number: without it a later tensor, which no operation made, could get
        the number, and with it the makers, of one that is gone."""
        self._unwritten: set[int] = set()
        """Memory that PyTorch's own code has taken and not written yet; by chance that is nan."""
        self.loaded: dict[int, Any] = {}
        self._left_out = LeftOut()
        self.records: list[Record] = []
        self.stepping = False
        """An optimizer's step runs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(t.__name__ in _APART and t.__module__.startswith("torch.distributed") for t in types):
            return NotImplemented  # it is taken apart first, and what that calls comes here
        kwargs = kwargs or {}
        before: list[Any] = []
        if self.active:
            try:
                with self._one_at_a_time:
                    before = self._before(func, args, kwargs)
            except Exception as e:
                self._trouble(e)
        out = func(*args, **kwargs)
        if self.active:
            try:
                with self._one_at_a_time:
                    self._look(func, args, kwargs, out, before)
            except Exception as e:
                self._trouble(e)
        return out

    # -- looking -------------------------------------------------------------------------------------------------

    def _before(self, func: Any, args: Any, kwargs: Any) -> list[Any]:
        """Copies of what this operation is about to write over."""
        if not writes_over(func):
            return []
        written = list(tensors_in(written_by(func, args, kwargs)))
        if len(written) > 64:
            return []
        return [(t, t.clone()) for t in written if looked_at(t) and t.numel() <= MOST_CLONED]

    def _look(self, func: Any, args: Any, kwargs: Any, out: Any, before: list[Any]) -> None:
        name = str(func)
        writes = writes_over(func)
        outs = list(tensors_in(written_by(func, args, kwargs) if writes and out is None else out))
        if any(type(t) not in PLAIN for t in outs):
            return
        taken = list(tensors_in((args, kwargs)))
        homes = [home_of(t) for t in taken]
        makers = {h: self._latest[h] for h in homes if h in self._latest}
        self._forget()
        self._number += 1
        raw = stacks.stack_here(3)  # _look < __torch_dispatch__ < who called the operation
        if name.startswith(_UNWRITTEN):
            # What stands in memory that nobody has written yet is nobody's value: a layer writes it before it is read.
            for t in outs:
                self._flows.pop(home_of(t), None)
                if not looked_at(t):
                    continue
                if not asked_by_user(raw):
                    self._unwritten.add(home_of(t))
                else:
                    t.fill_(float("nan"))
                    self._keep(home_of(t), t, self._new("empty", name, raw, "nan"))
            return
        self._left_out.look(name, args)
        inputs = [next((copy for own, copy in before if own is t), t) for t in taken]
        if writes and not self._unwritten.isdisjoint(homes):  # what is written for the first time is no input of that
            first = self._unwritten & {home_of(t) for t in outs}
            read = [home not in first for home in homes]
            inputs, taken = list(compress(inputs, read)), list(compress(taken, read))
        for t in outs:
            home = home_of(t)
            passed_through = home in homes and not writes
            if passed_through and home in self._unwritten:
                continue  # a view of it
            self._unwritten.discard(home)
            if home and not passed_through:
                self._made[self._number] = (name, raw, tuple(n for h, n in makers.items() if h != home))
                self._latest[home] = self._number
                if home not in self._kept:
                    self._kept[home] = StorageWeakRef(t.untyped_storage())  # type: ignore[no-untyped-call]
            if not looked_at(t) or is_finite(torch, t):
                if not passed_through and is_whole(t):
                    self._flows.pop(home, None)
                continue
            if passed_through and home in self._flows:
                continue
            self._keep(home, t, self._record(name, raw, inputs, taken, args, t))

    def _forget(self) -> None:
        """The operations of long ago go, the oldest half first."""
        if len(self._made) > MOST_MADE:
            for number in list(self._made)[: MOST_MADE // 2]:
                del self._made[number]
        if len(self._latest) > MOST_MADE:
            self._unwritten.clear()
            self._latest.clear()
            self._kept.clear()

    def _record(self, name: str, raw: Any, inputs: list[Any], taken: list[Any], args: Any, out: Any) -> Record:
        shows = "nan" if bool(torch.isnan(out).any()) else "inf"
        if name.startswith(_COLLECTIVES) and not any(home_of(t) in self._flows for t in taken):
            return self._new("received", name, raw, shows)  # it waits for what another process has sent
        parents: list[Record] = []
        from_nan = False
        for value, own in zip(inputs, taken, strict=True):
            if not looked_at(value) or value.numel() == 0 or is_finite(torch, value):
                continue
            parent = self.record_of(own)
            if parent is None:
                kind = "unwritten" if home_of(own) in self._unwritten else "given"
                given = self._new(kind, name, raw, "nan" if bool(torch.isnan(value).any()) else "inf")
                given.facts = {"inputs": [self._told(value, own)]}
                if home_of(own) in self.loaded:
                    given.facts["loaded"] = self.loaded[home_of(own)][0]
                self._keep(home_of(own), own, given)
                parent = given
            parents.append(parent)
            if parent.kind == "given" and "met" not in parent.facts and any(t.requires_grad for t in taken):
                parent.facts["met"] = raw
                parent.facts["met_side"] = next(i for i, t in enumerate(taken) if t is own)
            from_nan = from_nan or bool(torch.isnan(value).any())
        if parents and (shows == "inf" or from_nan):
            wanted = [p for p in parents if p.shows == "nan"] if shows == "nan" else parents
            return min(wanted or parents, key=lambda r: r.number)
        if (
            not parents
            and is_constant(args)
            and (shows == "inf" or any(a != a for a in args if isinstance(a, float)) or name.startswith(_FILLS))
        ):
            return self._new("constant", name, raw, shows)
        record = self._new("turn" if parents else "birth", name, raw, shows)
        record.parents = sorted(set(parents), key=lambda r: r.number)
        if len(self.records) <= MOST_BIRTHS:
            self._describe(record, inputs, taken, args, out)
        return record

    def _new(self, kind: str, name: str, raw: Any, shows: str) -> Record:
        record = Record(self._number, kind, name, raw, shows)
        record.step = self.stepping
        node = torch._C._current_autograd_node()
        if node is not None:
            record.node = str(node.name())
            record.made = stacks.kept_in(node)
        self.records.append(record)
        if len(self.records) > 4 * MOST_BIRTHS:
            del self.records[: 2 * MOST_BIRTHS]
        return record

    def _describe(self, record: Record, inputs: list[Any], taken: list[Any], args: Any, out: Any) -> None:
        facts = record.facts
        facts["inputs"] = [self._told(v, own) for v, own in list(zip(inputs, taken, strict=True))[:6]]
        facts["numbers"] = [a for a in args if isinstance(a, int | float) and not isinstance(a, bool)][:4]
        facts["output"] = describe(torch, out)
        bad = ~torch.isfinite(out)
        same = [t for t in inputs if looked_at(t) and t.shape == out.shape]
        facts["zero_there"] = any(bool((t[bad] == 0).all()) for t in same)
        facts["rows_out"] = rows_out(inputs)
        node = torch._C._current_autograd_node()
        if node is not None:
            facts["saved"] = self._saved(node)
            record.spared = self._left_out.sparing(bad)

    def _told(self, value: Any, own: Any) -> dict[str, Any]:
        """Facts about an input and the operations that made it, nearest first."""
        told = describe(torch, value)
        told["by"] = []
        todo, seen = [self._latest.get(home_of(own), 0)], set()
        while todo and len(told["by"]) < 12:
            number = todo.pop(0)
            made = self._made.get(number)
            if made is None or number in seen:
                continue
            seen.add(number)
            told["by"].append(made[:2])
            todo += made[2]
        told["ident"] = id(own)
        return told

    def _saved(self, node: Any) -> dict[str, Any]:
        """What the node whose backward runs has kept of the forward pass."""
        out: dict[str, Any] = {}
        for name in dir(type(node)):
            if not name.startswith("_saved_") or name.startswith("_saved_tensors"):
                continue
            try:
                if saved.may_be_hooked(getattr(node, "_raw" + name, None)):
                    continue
                value = getattr(node, name)
            except Exception:
                continue
            if isinstance(value, torch.Tensor):
                out[name.removeprefix("_saved_")] = self._told(local_of(value), value)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                out[name.removeprefix("_saved_")] = value
        return out

    # -- what was found ------------------------------------------------------------------------------------------

    def _keep(self, home: int, tensor: Any, record: Record) -> None:
        if home:
            self._flows[home] = record, StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        if len(self._flows) > MOST_MADE:
            self._flows = {h: known for h, known in self._flows.items() if not known[1].expired()}  # type: ignore[no-untyped-call]

    def record_of(self, tensor: Any) -> Record | None:
        """What made this tensor's elements not finite, as far as it was seen."""
        known = self._flows.get(home_of(tensor))
        return known[0] if known is not None else None

    def since(self, number: int) -> list[Record]:
        """The births since then, in order."""
        kinds = ("birth", "turn", "given", "empty", "unwritten")
        return [r for r in self.records if r.number >= number and r.kind in kinds]

    @property
    def now(self) -> int:
        return self._number
