"""Who cut: in a second run, how every tensor without a graph came from tensors that had one.

A ``TorchFunctionMode`` sees the operations of the user's program by name, with their arguments. Only tensors that need
no gradient are recorded, so a record chain ends where a graph begins.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from graphdoc.capture import stacks
from graphdoc.capture.containers import elements
from graphdoc.capture.frames import frames_of, site_of
from graphdoc.capture.in_threads import in_each_thread
from graphdoc.capture.places import is_user_file
from graphdoc.capture.switches import Place, frames_of_place, is_users, wraps_decorated
from graphdoc.capture.walk import DEEP, nodes_behind
from graphdoc.evidence import Cut

if TYPE_CHECKING:
    from graphdoc.capture.autopsy import Autopsy
    from graphdoc.capture.witness import Witness
    from graphdoc.evidence import Evidence

MOST_RECORDS = 400_000
DEEPEST = 400
"""Operations without a graph followed back from the loss."""
MOST_FOLLOWED = 50_000
MOST_CUTS = 20
MOST_CANDIDATES = 12
MOST_INSIDE = 5_000
"""Elements looked at inside a list that is turned into a tensor."""

CONVERSIONS = {"item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__array__", "__index__", "__complex__"}
ARRAYS = {"numpy", "__array__", "tolist", "detach", "data"}
DETACHES = {"detach", "detach_", "data"}
CONSTRUCTORS = {"tensor", "as_tensor", "new_tensor", "from_numpy", "FloatTensor", "asarray", "full", "scalar_tensor"}
LIKE = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"}
CREATORS = LIKE | {"new_zeros", "new_ones", "new_empty", "new_full"}
"""These take a shape and a type from a tensor, and none of its values."""
EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
COUNTS = {"histc", "histogram", "histogramdd"}
"""Results in floating point without a derivative. Where PyTorch gives zero (round, sign) the graph goes on."""
DRAWS = {"sample", "sample_n", "multinomial", "normal", "bernoulli", "poisson"}
MOST_UNRECORDED = 100
MOST_WALKED = 1_000_000
"""Nodes that one run is walked through to see which leaves lie behind what was cut off: a second or two."""
PLAIN = (int, slice, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator)
"""What an argument may be besides tensors and numbers without bringing any values along."""
QUIET = {"requires_grad", "shape", "grad_fn", "is_leaf", "size", "dim", "dtype", "device", "__len__"}
"""Questions about a tensor that make no value."""


class Origin:
    """Where something that has a graph was made; kept instead of the tensor, so that nothing is kept alive."""

    __slots__ = ("op", "raw")

    def __init__(self, op: str, raw: stacks.Stack | list[Any]) -> None:
        self.op, self.raw = op, raw


class Record:
    """One result without a graph: the operation that made it and what went in."""

    __slots__ = (
        "behind",
        "depth",
        "enabled",
        "event",
        "frozen",
        "inputs",
        "integral",
        "listed",
        "loose",
        "numbers",
        "op",
        "origins",
        "raw",
        "recording",
        "switch",
    )

    def __init__(self, op: str, raw: stacks.Stack, event: int) -> None:
        self.op = op
        self.raw = raw
        self.recording = True
        self.enabled = True
        self.switch: Place | None = None
        self.integral = False
        self.inputs: list[Record] = []
        self.origins: list[Origin] = []
        self.behind: frozenset[int] = frozenset()
        self.frozen: list[int] = []
        self.listed = False
        self.loose = False
        self.numbers = False
        self.depth = 0
        self.event = event


class _Noting(threading.local):
    """Whether this thread is at work on a record."""

    now = False


class CutWatch(TorchFunctionMode):
    """Records results without a graph, by identity of the tensor, number or array."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._torch = witness.torch
        self._witness = witness
        self._records: OrderedDict[int, tuple[Record, Any]] = OrderedDict()
        self._names: dict[Any, str] = {}
        self._arrays: dict[int, Record] = {}
        self._numbers: dict[int, Record] = {}
        self._recent: list[Record] = []
        self._frozen_at: OrderedDict[int, stacks.Stack] = OrderedDict()
        self._unrecorded: dict[Any, Record] = {}
        self._leaves: dict[int, weakref.ref[Any]] = {}
        self._walked = 0
        self._noting = _Noting()

    @classmethod
    def start(cls, witness: Witness) -> CutWatch:
        watch = cls(witness)
        in_each_thread(witness, lambda: watch)
        return watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self._noting.now:
            self._noting.now = True
            try:
                self._note(func, args, kwargs, result)
            except Exception:
                pass
            finally:
                self._noting.now = False
        return result

    def _name(self, func: Any) -> str:
        name = self._names.get(func)
        if name is None:
            full = resolve_name(func) or getattr(func, "__qualname__", getattr(func, "__name__", str(func)))
            parts = str(full).split(".")
            name = parts[-2] if parts[-1] == "__get__" else parts[-1]
            self._names[func] = name
        return name

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = self._name(func)
        if name in QUIET:
            return
        if name == "requires_grad_" or name == "__set__":
            self._note_freezing(func, args, kwargs)
            return
        outputs = result if isinstance(result, tuple | list) else (result,)
        torch = self._torch
        if isinstance(result, torch.Tensor) and result.requires_grad:
            return
        record: Record | None = None
        tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
        if not tensors and name not in CONVERSIONS:
            return
        mixed = any(o.requires_grad for o in tensors)
        for output in outputs:
            if isinstance(output, torch.Tensor) and output.requires_grad:
                continue
            if record is None:
                record = self._make(name, args, kwargs)
                # What is whole numbers or a yes or no has no slope, whatever it was computed from.
                plain = [o for o in tensors if not o.requires_grad]
                record.integral = not any(o.is_floating_point() or o.is_complex() for o in plain)
                if mixed and isinstance(output, torch.Tensor) and output.is_floating_point():
                    record.origins = []  # made of the inputs that need no gradient (broadcast_tensors)
            self._keep(output, record)
            if not tensors and isinstance(result, list):
                for inner in result[:MOST_INSIDE]:
                    self._keep(inner, record)
        if record is not None and name in CONVERSIONS | DETACHES:
            left = record if record.origins else _draw_behind(record) if name in CONVERSIONS else None
            if left is not None and left not in self._recent[-1:]:
                self._recent.append(left)
                del self._recent[:-200]
        if record is not None and record.origins and not record.recording:
            self._note_unrecorded(record)

    def _note_unrecorded(self, record: Record) -> None:
        """What was computed from parameters under a switch that nothing closes, whether the loss needs it or not."""
        persistent = record.switch is not None and record.switch[0] == "set_grad_enabled"
        if persistent and len(self._unrecorded) < MOST_UNRECORDED:
            self._unrecorded.setdefault((record.op, site_of(record.raw)), record)

    def _note_freezing(self, func: Any, args: Any, kwargs: Any) -> None:
        if func not in (self._torch.Tensor.requires_grad_, self._torch.Tensor.requires_grad.__set__):
            return
        if not (args[1] if len(args) > 1 else kwargs.get("requires_grad", True)):
            self._frozen_at[id(args[0])] = stacks.stack_here(4)
            if len(self._frozen_at) > MOST_RECORDS:
                self._frozen_at.popitem(last=False)

    def _make(self, name: str, args: Any, kwargs: Any) -> Record:
        torch = self._torch
        record = Record(name, stacks.stack_here(4), self._witness.journal.count)
        # Inference mode records nothing, whatever grad mode says (enable_grad inside it has no effect).
        inference = torch.is_inference_mode_enabled()
        record.enabled = torch.is_grad_enabled()
        record.recording = record.enabled and not inference
        if not record.recording:
            record.switch = self._witness.switches.in_force(inference)
        record.loose = name in EMPTY  # what is read from a file is put into such memory, and that is not seen
        if name in CREATORS:
            return record
        record.listed = bool(args) and isinstance(args[0], list | tuple)
        self._gather(record, args, 0)
        self._gather(record, tuple(kwargs.values()), 0)
        if record.origins:
            record.behind = self._leaves_of((*args, *kwargs.values()))
        if record.depth > DEEPEST:
            record.inputs = []
        return record

    def _leaves_of(self, values: Iterable[Any]) -> frozenset[int]:
        """The ids of the leaves behind the graphs of these values, as far as the run's share of nodes allows."""
        flat = [v for a in values for v in (elements(a, MOST_INSIDE) if isinstance(a, list | tuple) else (a,))]
        tensors = [v for v in flat if isinstance(v, self._torch.Tensor) and v.requires_grad]
        found = {id(v): v for v in tensors if v.grad_fn is None}
        graph = nodes_behind([v.grad_fn for v in tensors if v.grad_fn is not None])
        for node, following in itertools.islice(graph, DEEP - 1):
            if self._walked >= MOST_WALKED:
                break
            self._walked += 1
            variable = getattr(node, "variable", None) if not following else None
            if variable is not None:
                found[id(variable)] = variable
        for ident, leaf in found.items():
            known = self._leaves.get(ident)
            if known is None or known() is not leaf:
                self._leaves[ident] = weakref.ref(leaf)
        return frozenset(found)

    def _gather(self, record: Record, values: Any, depth: int) -> None:
        torch = self._torch
        for value in elements(values, MOST_INSIDE):
            if isinstance(value, torch.Tensor):
                if value.requires_grad:
                    node = value.grad_fn
                    kept = stacks.kept_in(node) if node is not None else None
                    made: Any = kept if isinstance(kept, stacks.Stack) else []
                    record.origins.append(Origin(node.name() if node is not None else "", made))
                    continue
            elif isinstance(value, list | tuple) and depth < 4:
                self._gather(record, value, depth + 1)
                continue
            elif isinstance(value, bool | str | type(None)):
                continue
            found = self._of(value) or self._shared(value)
            if found is not None and len(record.inputs) < 64:
                record.inputs.append(found)
                record.depth = max(record.depth, found.depth + 1)
            elif isinstance(value, torch.nn.Parameter):
                record.frozen.append(id(value))
            elif isinstance(value, float | torch.Tensor) or type(value).__module__ == "numpy":
                record.loose = True
                record.numbers = record.numbers or not isinstance(value, torch.Tensor)
            elif not isinstance(value, PLAIN):
                record.loose = True  # a storage that was read from a file, a buffer of bytes

    def _keep(self, value: Any, record: Record) -> None:
        # A number or array is held so that its identity stays its own; a tensor is only referred to.
        hold = weakref.ref(value) if isinstance(value, self._torch.Tensor) else value
        self._records[id(value)] = (record, hold)
        if isinstance(hold, weakref.ref) and value.numel() == 1 and len(self._numbers) < MOST_RECORDS:
            self._numbers[value.data_ptr()] = record
        if type(value).__name__ == "ndarray":
            self._arrays[value.__array_interface__["data"][0]] = record
        self._records.move_to_end(id(value))
        if len(self._records) > MOST_RECORDS:
            _, old = self._records.popitem(last=False)[1]
            if type(old).__name__ == "ndarray":
                self._arrays.pop(old.__array_interface__["data"][0], None)

    def _of(self, value: Any) -> Record | None:
        """The record of this very object."""
        record, hold = self._records.get(id(value), (None, None))
        return record if hold is value or (isinstance(hold, weakref.ref) and hold() is value) else None

    def _made(self, value: Any) -> Record | None:
        """The record of a loss, also of one that was wrapped since: ``Variable(loss, requires_grad=True)`` shares its
        memory."""
        found = self._of(value)
        if found is None and value.requires_grad and value.numel() == 1:
            found = self._numbers.get(value.data_ptr())
        return found

    def _shared(self, value: Any) -> Record | None:
        """The record of the array that a tensor shares its memory with: ``from_numpy`` is seen by no mode."""
        if not self._arrays or not isinstance(value, self._torch.Tensor):
            return None
        try:
            record = self._arrays.get(value.data_ptr())
        except RuntimeError:
            return None
        if record is not None:
            self._keep(value, record)
        return record

    # -- the answer ----------------------------------------------------------------------------------------------

    def fill(self, evidence: Evidence, autopsy: Autopsy, _roots: list[Any], outputs: list[Any]) -> None:
        """Follow the failing loss back to every place where a graph ended, the nearest to the loss first."""
        starts = [r for t in outputs if (not t.requires_grad or t.is_leaf) and (r := self._made(t)) is not None]
        chain = _behind(starts)
        for record, alike in _apart(r for r in chain if r.origins)[:MOST_CUTS]:
            evidence.cuts.append(self._cut(record, True, autopsy, alike=alike))
        evidence.extras["unrecorded"] = [self._work(r, autopsy) for r in self._unrecorded.values()]
        if not starts:
            return
        evidence.extras["loss_made"] = [
            {"op": s.op, "stack": [vars(f) for f in frames_of(s.raw, autopsy.cwd)]} for s in starts[:3]
        ]
        frozen = [r for r in chain if r.frozen]
        if evidence.cuts:
            # What was cut off may be a target, and what was frozen have been meant to learn.
            evidence.cuts += [self._cut(r, True, autopsy, "frozen") for r in frozen[:1]]
            return
        off = next((s for s in starts if not s.recording), None)
        if off is not None and off.switch is not None:
            evidence.cuts.append(self._cut(off, True, autopsy, "no-grad"))
        elif frozen:
            evidence.cuts.append(self._cut(frozen[0], True, autopsy, "frozen"))
        elif recent := self._candidates(chain, evidence):
            evidence.cuts += [self._cut(r, False, autopsy, alike=alike) for r, alike in recent[:MOST_CANDIDATES]]
        else:
            made = next((r for r in reversed(chain) if not r.inputs), chain[-1])
            trained = any(p.requires_grad and not p.buffer for p in evidence.parameters)
            # A value whose making was not seen may have come from the network after all, by a way round autograd.
            seen = not any(r.loose for r in chain)
            evidence.cuts.append(self._cut(made, seen or not trained, autopsy, "constant" if trained else "input"))

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
        return _apart(r for r in reversed(self._recent) if r.event > last and (numbers or r.op in ARRAYS))

    def _cut(
        self, record: Record, certain: bool, autopsy: Autopsy, reason: str = "", alike: Iterable[Record] = ()
    ) -> Cut:
        names = autopsy.census.parameter_names
        cut = Cut(reason or self._reason(record), record.op, frames_of(record.raw, autopsy.cwd), certain=certain)
        # A leaf has no operation of its own: the last one with a graph is told only where there was one.
        origin = next((o for o in record.origins if o.op), None)
        if origin is not None:
            cut.before, cut.before_op = frames_of(origin.raw, autopsy.cwd), origin.op
        if cut.reason == "missing-create-graph":
            cut.op = "autograd.grad"
        cut.behind = self._behind_names(alike or [record], names)
        if cut.reason == "frozen":
            cut.behind = sorted({names[i] for i in record.frozen if i in names})
            at = next((self._frozen_at[i] for i in record.frozen if i in self._frozen_at), None)
            if at is not None:
                cut.switch, cut.switch_kind = frames_of(at, autopsy.cwd), "requires_grad"
        cut.listed = record.listed
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
        if record.op in DETACHES:
            return "detach"
        if not record.recording:
            return "no-grad"
        if record.op == "grad":
            return "missing-create-graph"
        # An operation with a slope is never told to have none: how it lost its graph was not seen.
        return "nondifferentiable" if record.integral or record.op in COUNTS else "unknown"

    def _work(self, record: Record, autopsy: Autopsy) -> dict[str, Any]:
        return {
            "op": record.op,
            "stack": [vars(f) for f in frames_of(record.raw, autopsy.cwd)],
            "behind": self._behind_names([record], autopsy.census.parameter_names),
        }

    def _behind_names(self, records: Iterable[Record], names: dict[int, str]) -> list[str]:
        """The names of the parameters behind these operations, as far as they still live."""
        found = {i for r in records for i in r.behind if i in names}
        return sorted(names[i] for i in found if i in self._leaves and self._leaves[i]() is not None)


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
        wrapper = wraps_decorated(code) or code.co_name in ("_fn", "inner")
        if not code.co_filename.startswith("<") and not wrapper:
            name = code.co_name
    return name


def _draw_behind(record: Record) -> Record | None:
    """The random draw, from what has a graph, whose number leaves its tensor here: what came of it is not seen."""
    near = _behind(record.inputs, 20)
    return next((r for r in near if r.origins and r.op in DRAWS), None)


def _apart(records: Iterable[Record]) -> list[tuple[Record, list[Record]]]:
    """The first record of each place and operation, with all of them."""
    known: dict[Any, list[Record]] = {}
    for r in records:
        known.setdefault((r.op, site_of(r.raw)), []).append(r)
    return [(same[0], same) for same in known.values()]


def _behind(starts: list[Record], most: int = MOST_FOLLOWED) -> list[Record]:
    """The records that these were made from, nearest first."""
    chain = list(starts)
    seen = {id(r) for r in starts}
    for record in chain:
        if len(chain) >= most:
            break
        for r in record.inputs:
            if id(r) not in seen:
                seen.add(id(r))
                chain.append(r)
    return chain
