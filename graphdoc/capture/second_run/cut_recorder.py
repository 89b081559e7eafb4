"""In a second run: how every tensor without a graph came from tensors that had one, and what it then went into."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from graphdoc.capture.events import cut_records
from graphdoc.capture.events.cut_records import Origin, Record, is_nothing, left_by, records_behind, viewed
from graphdoc.capture.graph.walk import DEEP, nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.process.in_threads import watch_each_thread
from graphdoc.capture.tensors.access_paths import elements, numbers_in
from graphdoc.capture.tensors.living import Ref

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


# In a second run, which values without a graph went into something that has one, and what became of them. Such a
# value is a constant for autograd: one that was taken out of its graph, one that is let require gradients only
# afterwards, one that was drawn at random.

MOST_ENTERED = 30_000
"""Values that went in, the latest."""
MOST_TAKEN = 64
"""Inputs of an operation that are looked at."""
MOST_INSIDE = 5_000
"""Elements of a list among them."""
MOST_TRIED = 1_000

Flagged = tuple[Ref, int, stacks.Stack]
"""A tensor, autograd's sequence number when it was let require gradients, and where."""


class Entered:
    """``latest``: the sequence number of the node that took a value, the value's record, and where the node was made.

    ``record_of`` gives the record of a tensor without a graph, or None.
    """

    def __init__(self, record_of: Callable[[Any], Record | None]) -> None:
        self._record_of = record_of
        self._torch: Any = torch
        self.latest: deque[tuple[int, Record, stacks.Stack]] = deque(maxlen=MOST_ENTERED)
        self._flagged_at: OrderedDict[int, Flagged] = OrderedDict()

    def note(self, args: tuple[Any, ...], result: torch.Tensor) -> None:
        """An operation on ``args`` has given a result that requires gradients."""
        node = result.grad_fn
        kept = stacks.kept_in(node) if node is not None else None
        if node is None or not isinstance(kept, stacks.Stack):
            return
        for value in flat(args)[:MOST_TAKEN]:
            if isinstance(value, torch.Tensor) and cut_records.came_without_graph(value, result):
                record = self._record_of(value)
                if record is not None:
                    self.latest.append((int(node._sequence_nr()), record, kept))

    def note_flag(self, tensor: Any, here: Callable[[], stacks.Stack]) -> None:
        """A tensor is let require gradients; only the first time counts, and only one that was made without."""
        if self._record_of(tensor) is None or self._flag_of(tensor) is not None:
            return
        self._flagged_at[id(tensor)] = Ref(tensor), self._torch.autograd._get_sequence_nr(), here()
        if len(self._flagged_at) > MOST_ENTERED:
            self._flagged_at.popitem(last=False)

    def _flag_of(self, tensor: Any) -> Flagged | None:
        known = self._flagged_at.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None

    def flagged_late(self, tensor: Any, graph: Container[int]) -> tuple[stacks.Stack, stacks.Stack] | None:
        """Where a tensor that had been made without the flag was first let require gradients, and where it, or what was
        computed from it, had gone into one of these nodes before; None where that was not seen."""
        known, record = self._flag_of(tensor), self._record_of(tensor)
        if known is None or record is None:
            return None
        _, number, flagged = known
        entered = ((r, at) for n, r, at in reversed(self.latest) if n in graph and n < number)
        taken = next((at for r, at in islice(entered, MOST_TRIED) if record in records_behind([r], MOST_TRIED)), None)
        return (flagged, taken) if taken is not None else None

    def taken_out(self, tensor: Any, graph: Container[int]) -> list[Record]:
        """The operations that took the values of this tensor out of the graph, where these then went into the nodes
        with these sequence numbers; the latest node first."""
        entered = [r for number, r, _ in reversed(self.latest) if number in graph]
        node = tensor.grad_fn
        kept = stacks.kept_in(node) if node is not None else None
        behind = (r for r in records_behind(entered) if r.origins)
        if node is not None:
            return [r for r in behind if kept is not None and any(o.raw is kept for o in r.origins)]
        return [r for r in behind if id(tensor) in r.behind]


def flat(values: Iterable[Any]) -> list[Any]:
    """The values, and those in the lists among them."""
    return [v for a in values for v in (elements(a, MOST_INSIDE) if isinstance(a, list | tuple) else (a,))]


MOST_RECORDS, DEEPEST = 400_000, 400
"""Operations without a graph followed back from the loss."""

# In a second run, how every tensor without a graph came from tensors that had one. A ``TorchFunctionMode`` sees the
# operations of the user's program by name, with their arguments. Only tensors that need no gradient are recorded, so
# a record chain ends where a graph begins.

CONVERSIONS = {"item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__array__", "__index__", "__complex__"}
DETACHES = {"detach", "detach_", "data", *cut_records.NAMES}
COPIES = "tensor"
"""``torch.tensor``: what it is given are numbers, and its result is a leaf."""
LIKE = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"}
CREATORS = LIKE | {"new_zeros", "new_ones", "new_empty", "new_full"}
"""These take a shape and a type from a tensor, and none of its values."""
FILLED = {"full", "full_like", "new_full"}
"""These take a value to fill it with besides."""
REMADE = {COPIES, "as_tensor", *FILLED}
"""What these are given are numbers; nobody gives them a tensor with a graph to be rid of that."""
_PRODUCTS = {"mul", "rmul", "imul", "multiply"}
EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
MOST_UNRECORDED = 100
MOST_WALKED = 1_000_000
"""Nodes that one run is walked through to see which leaves lie behind what was cut off: a second or two."""
PLAIN = (int, slice, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator)
"""What an argument may be besides tensors and numbers without bringing any values along."""
QUIET = {
    *("requires_grad", "shape", "grad_fn", "is_leaf", "size", "dim", "dtype", "device", "__len__", "numel", "stride"),
    *("is_floating_point", "is_complex", "is_contiguous", "data_ptr", "untyped_storage"),
}
"""Questions about a tensor that make no value."""


@cache
def name_of(func: Any) -> str:
    """The name of an operation, which is all that is known of one that no mode sees."""
    full = func if isinstance(func, str) else resolve_name(func)
    full = full or getattr(func, "__qualname__", getattr(func, "__name__", str(func)))
    parts = str(full).split(".")
    return parts[-2] if parts[-1] == "__get__" else parts[-1]


class _Noting(threading.local):
    """Whether this thread is at work on a record, and what ``detach_()`` is about to cut off."""

    now = False
    before: Record | None = None


class CutRecorder(TorchFunctionMode):
    """Records results without a graph, by identity of the tensor, number or array."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._torch = witness.torch
        self._witness = witness
        self._records: OrderedDict[int, tuple[Record, Any]] = OrderedDict()
        self._arrays: dict[int, Record] = {}
        self._recent: list[Record] = []
        self._frozen_at: OrderedDict[int, tuple[Ref, stacks.Stack]] = OrderedDict()
        self.entered_values = Entered(self._known)
        self._unrecorded: dict[Any, Record] = {}
        self._walked = 0
        self._noting = _Noting()

    @classmethod
    def start(cls, witness: Witness, _: str) -> Self:
        return cls(witness).begun()

    def begun(self) -> Self:
        """Record from now on, in every thread."""
        self._witness.undoing.append(cut_records.watch_wrapped(self._torch, self.noted))
        return watch_each_thread(self, self._witness)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._torch.compiler.is_compiling():  # a part of PyTorch (`scan`) traces what runs, and this with it
            return func(*args, **kwargs)
        if func is self._torch.Tensor.detach_:
            self._look_before_cut(args, kwargs)
        try:
            result = func(*args, **kwargs)
            self.noted(func, args, kwargs, result)
        finally:
            self._noting.before = None  # of a view ``detach_`` raises, and nothing is cut off
        return result

    def _look_before_cut(self, args: Any, kwargs: Any) -> None:
        """Keep what a tensor was made from that ``detach_()`` is to cut off in place: nothing tells afterwards."""
        self._apart(lambda: setattr(self._noting, "before", self._make("detach_", args, kwargs)))

    def noted(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record what an operation (its name, where no mode sees it) has made; for its caller's caller."""
        self._apart(self._note, func, args, kwargs, result)

    def _apart(self, function: Callable[..., None], *args: Any) -> None:
        """Call this, and record nothing of what it does itself."""
        if self._noting.now:
            return
        self._noting.now = True
        try:
            function(*args)
        except Exception:
            pass
        finally:
            self._noting.now = False

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = name_of(func)
        if name in QUIET or is_nothing(name, args, result):
            return
        if name == "requires_grad_" or name == "__set__":
            self._note_freezing(func, args, kwargs)
            return
        # What is written is made of what it was and of what is put there.
        result = args[0] if name == "__setitem__" else result
        outputs = result if isinstance(result, tuple | list) else (result,)
        # A leaf, also where it is let require gradients: ``torch.tensor(losses, requires_grad=True)`` copies numbers.
        wrapped = name in cut_records.NAMES or (name == COPIES and isinstance(result, torch.Tensor))
        written = ""
        if isinstance(result, torch.Tensor) and result.requires_grad and not wrapped:
            self.entered_values.note((*args, *kwargs.values()), result)
            # The graph of what is written through ``x.data`` goes with that alias, and its numbers stay in ``x``.
            alias = self._of(result) if args and result is args[0] else None
            written = alias.op if alias is not None and alias.op in DETACHES else ""
            if not written:
                return
        record: Record | None = None
        tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
        if not tensors and name not in CONVERSIONS:
            return
        wrapped = wrapped or bool(written)
        mixed = not wrapped and any(o.requires_grad for o in tensors)
        for output in outputs:
            if isinstance(output, torch.Tensor) and output.requires_grad and not wrapped:
                continue
            if record is None:
                record = self._noting.before or self._make(name, args, kwargs)
                record.written = written
                # What is whole numbers or a yes or no has no slope, whatever it was computed from.
                plain = [o for o in tensors if wrapped or not o.requires_grad]
                arrays = (o for o in outputs if type(o).__name__ == "ndarray")
                record.integral = not any(o.is_floating_point() or o.is_complex() for o in plain)
                record.integral &= not any(o.dtype.kind in "fc" for o in arrays)
                if mixed and isinstance(output, torch.Tensor) and output.is_floating_point():
                    record.origins = []  # made of the inputs that need no gradient (broadcast_tensors)
            self._keep(output, record)
        if record is not None and not tensors and isinstance(result, list):
            for inner in islice(numbers_in(result), MOST_INSIDE):
                self._keep(inner, record)
        if record is not None and name in CONVERSIONS | DETACHES:
            left_by(record, name in CONVERSIONS, self._recent)
        if record is not None and record.origins and not record.recording:
            self._note_unrecorded(record)

    def _note_unrecorded(self, record: Record) -> None:
        """What was computed from parameters under a switch that nothing closes, whether the loss needs it or not."""
        persistent = record.switch is not None and record.switch[0] == "set_grad_enabled"
        if persistent and len(self._unrecorded) < MOST_UNRECORDED:
            self._unrecorded.setdefault(record.place, record)

    def _note_freezing(self, func: Any, args: Any, kwargs: Any) -> None:
        if func not in (self._torch.Tensor.requires_grad_, self._torch.Tensor.requires_grad.__set__):
            return
        tensor = args[0]
        if not (args[1] if len(args) > 1 else kwargs.get("requires_grad", True)):
            self._frozen_at[id(tensor)] = Ref(tensor), stacks.stack_here(6)
            if len(self._frozen_at) > MOST_RECORDS:
                self._frozen_at.popitem(last=False)
        else:
            self.entered_values.note_flag(tensor, lambda: stacks.stack_here(8))

    def _make(self, name: str, args: Any, kwargs: Any) -> Record:
        record = Record(name, stacks.stack_here(6), self._witness.journal.count)
        # Inference mode records nothing, whatever grad mode says (enable_grad inside it has no effect).
        inference = torch.is_inference_mode_enabled()
        record.enabled = torch.is_grad_enabled()
        record.recording = record.enabled and not inference
        if not record.recording:
            record.switch = self._witness.switches.in_force(inference)
        record.loose = name in EMPTY  # what is read from a file is put into such memory, and that is not seen
        record.void = name.strip("_") in _PRODUCTS and any(type(a) in (int, float) and a == 0 for a in args)
        if name in CREATORS - FILLED:
            return record
        record.listed = bool(args) and isinstance(args[0], list | tuple)
        if record.listed:
            record.nested = any(isinstance(v, list | tuple) for v in islice(args[0], MOST_INSIDE))
            record.mixed = any(isinstance(v, int | float) for v in islice(args[0], MOST_INSIDE))
            within = (t for t in flat(flat(args[:1])) if isinstance(t, torch.Tensor))
            record.element_dims = max((t.dim() for t in within), default=0)
        axis = kwargs.get("dim", args[1] if name == "argmax" and len(args) > 1 else None)
        if name == "argmax" and isinstance(axis, int):
            record.choices = args[0].shape[axis]
        args = args[name in FILLED :]
        self._gather(record, args, 0)
        self._gather(record, tuple(kwargs.values()), 0)
        if record.origins:
            record.leaves = self._leaves_of((*args, *kwargs.values()))
        if record.depth > DEEPEST:  # a rollout: what comes of it is followed anew from here
            record.inputs, record.depth = [], 0
        return record

    def _leaves_of(self, values: Iterable[Any]) -> tuple[Ref, ...]:
        """The leaves behind the graphs of these values, as far as the run's share of nodes allows."""
        tensors = [viewed(v) for v in flat(flat(values)) if isinstance(v, torch.Tensor) and v.requires_grad]
        found = {id(v): v for v in tensors if v.grad_fn is None}
        graph = nodes_behind([v.grad_fn for v in tensors if v.grad_fn is not None])
        for node, following in islice(graph, DEEP - 1):
            if self._walked >= MOST_WALKED:
                break
            self._walked += 1
            variable = getattr(node, "variable", None) if not following else None
            if variable is not None:
                found[id(variable)] = variable
        return tuple(Ref(leaf) for leaf in found.values())

    def _gather(self, record: Record, values: Any, depth: int) -> None:
        for value in elements(values, MOST_INSIDE):
            if isinstance(value, torch.Tensor):
                if value.requires_grad:
                    node = viewed(value).grad_fn
                    kept = stacks.kept_in(node) if node is not None else None
                    made: Any = kept if isinstance(kept, stacks.Stack) else []
                    record.origins.append(Origin(node.name() if node is not None else "", made))
                    continue
            elif isinstance(value, list | tuple) and depth < 4:
                self._gather(record, value, depth + 1)
                continue
            elif isinstance(value, bool | str | type(None)):
                continue
            found = self._known(value)
            if found is not None and len(record.inputs) < 64:
                record.inputs.append(found)
                if isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex()):
                    record.counted.append(found)
                record.depth = max(record.depth, found.depth + 1)
            elif isinstance(value, torch.nn.Parameter):
                frozen, at = self._frozen_at.get(id(value), (None, None))
                record.parameters.append((Ref(value), at if frozen is not None and frozen() is value else None))
            elif isinstance(value, float | torch.Tensor) or type(value).__module__ == "numpy":
                record.loose = True
                record.numbers = record.numbers or not isinstance(value, torch.Tensor)
            elif not isinstance(value, PLAIN):
                record.loose = True  # a storage that was read from a file, a buffer of bytes

    def _keep(self, value: Any, record: Record) -> None:
        # A number or array is held so that its identity stays its own; a tensor is only referred to.
        hold = Ref(value) if isinstance(value, torch.Tensor) else value
        self._records[id(value)] = (record, hold)
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
        return record if hold is value or (isinstance(hold, Ref) and hold() is value) else None

    def _known(self, value: Any) -> Record | None:
        """The record of an object, or of the array that it shares its memory with."""
        return self._of(value) or self._shared(value)

    def _shared(self, value: Any) -> Record | None:
        """The record of the array that a tensor shares its memory with: ``from_numpy`` is seen by no mode."""
        if not self._arrays or not isinstance(value, torch.Tensor):
            return None
        try:
            record = self._arrays.get(value.data_ptr())
        except RuntimeError:
            return None
        if record is not None:
            self._keep(value, record)
        return record
