"""A run to compare with another: compiled or not, in double, on the CPU, in one batch, or moved by rounding alone.

What each step of an optimizer is given is traced as in a trial of a patch; besides that the trace says what the first
steps have computed: each compiled region, or where none is compiled each operation, by the user's line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce, wraps
from itertools import islice
from types import CellType
from typing import TYPE_CHECKING, Any

import torch

from graphdoc.capture.graph.walk import nodes_behind
from graphdoc.capture.places.code_places import is_user_file, position, shown_file
from graphdoc.capture.places.stacks import Stack, kept_in
from graphdoc.capture.process.in_threads import watch_each_thread
from graphdoc.capture.second_run.births import tensors_in, written_by
from graphdoc.capture.tensors.facts import grad_fn_of, parameters_of, users_frame
from graphdoc.capture.tensors.number_facts import has_memory, local_of
from graphdoc.capture.trials.reference import draws
from graphdoc.capture.trials.trace import WALK_LIMIT, StepTrace, measured
from graphdoc.capture.trials.whole_batch import be_alone, watch_data

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_SCALED = 20
"""Nodes between a loss and its mean: a factor, a sign, a penalty beside it."""
MOST_SEEN = 20_000
"""Operations, and nodes of graphs, that are told at most."""
_UNWRITTEN = ("empty", "new_empty")
"""What these give holds what was in the memory before."""


def mean_over(node: Any) -> tuple[float, Any]:
    """How many numbers a loss is the mean of, or what its sum is divided by; 0 where that is not one number. And the
    node that takes the mean, if one does."""
    for _ in range(MOST_SCALED):
        name = type(node).__name__
        if name.startswith("MeanBackward"):
            return float(node._saved_self_sym_numel), node
        if name.startswith("NllLoss") and node._saved_reduction == 1:
            return float(node._saved_total_weight), node
        if getattr(node, "_saved_reduction", None) == 1:
            return float(node._saved_self.numel()), node
        behind = [n for n, _ in getattr(node, "next_functions", ()) if n is not None]
        if name == "DivBackward0" and [type(n).__name__[:11] for n in behind] == ["SumBackward"]:
            return float(node._saved_other), None
        if len(behind) != 1 or name.startswith("SumBackward"):
            break
        node = behind[0]
    return 0.0, None


class Compared(StepTrace):
    """Records one process. ``regions`` are compiled ones, in the place of single operations; ``double`` computes in
    float64; ``eps`` moves weights and inputs by up to this part of themselves; ``most`` is the number of steps.
    ``data``: what modules are given is noted as well; ``alone``: of the program's ranks there is one; ``batches-…`` are
    the sizes of its batches, in the order in which their samplers are made, and ``repeat-…`` is how often in a row each
    is given."""

    first_calls = 500

    def __init__(self, witness: Witness, words: list[str]) -> None:
        super().__init__(witness, -1, False)
        self.regions = "regions" in words
        self.double = "double" in words
        self.on_cpu = "cpu" in words
        self.data = "data" in words
        self.alone = "alone" in words
        sizes = next((w for w in words if w.startswith("batches-")), "batches")
        self.batches = [int(size) for size in sizes.split("-")[1:]]
        self.repeated = next((int(w.removeprefix("repeat-")) for w in words if w.startswith("repeat-")), 1)
        numbers = [float(w) for w in words if w[0].isdigit()]
        self.most, self.eps = int(numbers[0]), numbers[1] if numbers[1:] else 0.0
        self.looking = 0  # we are: what we compute is none of the program's
        self.in_step = False
        self.over = False
        self.count = 0
        self.made_steps: dict[int, int] = {}
        self.met: dict[tuple[Any, ...], int] = {}
        self.coarsest = 0.0
        self.modules: list[str] = []
        self.paths: dict[int, str] = {}
        self.moved: set[int] = set()
        self.copied: list[tuple[Any, Any]] = []
        self.generator = self.torch.Generator().manual_seed(1)

    @classmethod
    def start(cls, witness: Witness, detail: str) -> Compared:
        """From ``compare[:regions][:double][:cpu][:data][:alone][:batches-…][:repeat-…]:STEPS[:EPS]``, with words
        for the rest of the capture besides."""
        trace = cls(witness, detail.split(":"))
        trace._install()
        return trace

    def _install(self) -> None:
        if self.alone:
            be_alone(self)
        if self.data:
            watch_data(self)
        super()._install()
        if self.on_cpu:
            self.torch.cuda.is_available = lambda: False
            watch_each_thread(moving_to_cpu(self.double), self.witness)
        if self.regions:
            watch_compile(self)
            return
        from torch.nn.modules import module

        module.register_module_forward_pre_hook(self._entering)
        module.register_module_forward_hook(self._left, always_call=True)
        watch_each_thread(operations(self), self.witness)

    def _guard(self, function: Any, *args: Any) -> Any:
        self.looking += 1
        try:
            return super()._guard(function, *args)
        finally:
            self.looking -= 1

    # -- what a step is given ------------------------------------------------------------------------------------

    def _made(self, optimizer: Any) -> None:
        super()._made(optimizer)
        for p in parameters_of(optimizer) if self.eps else ():
            if id(p) not in self.moved and has_memory(p) and p.is_floating_point():
                self.moved.add(id(p))
                p.data.copy_(self._moved(p.data))

    def _write_names(self) -> None:
        super()._write_names()
        self.write({"k": "shapes", "shapes": {key: list(local_of(p).shape) for key, p in self.parameters.values()}})

    def _moved(self, tensor: Any) -> Any:
        """The tensor, each element nearer to zero by up to ``eps`` of itself: zeros, infinities and bounds stay."""
        part = self.torch.rand(tensor.shape, generator=self.generator, dtype=self.torch.float64).to(tensor.device)
        return (tensor.double() * (1 - self.eps * part)).to(tensor.dtype)

    def _at_step(self, ended: bool, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.in_step = not ended
        if not ended and self.made_steps.get(id(optimizer), 0) >= self.most and not self.over:
            self.over = True
            self.write({"k": "count", "steps": self.steps, "calls": self.calls})
            self.ending.tell_of_all(*self._group())
        if self.over:
            return
        self._name_new()  # gradients may come from a compiled region, without a call
        super()._at_step(ended, optimizer, args, kwargs)
        elsewhere = next((p.device.type for p in parameters_of(optimizer) if p.device.type != "cpu"), "")
        if ended and elsewhere:
            self.write({"k": "device", "type": elsewhere})
        if ended:
            self.made_steps[id(optimizer)] = self.made_steps.get(id(optimizer), 0) + 1

    def _before(self, outputs: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        record, before = super()._before(outputs, kwargs)
        with suppress(AttributeError, RuntimeError, TypeError, ValueError):  # what is saved may have been freed
            ((record["mean_over"], node),) = {
                mean_over(grad_fn_of(t)) for t in outputs if isinstance(t, self.torch.Tensor)
            }
            if node is not None and self.data:
                node.register_hook(lambda _, received: record.update(weight=float(received[0])))
        return record, before

    def _run(self, engine: Any, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.over or self.torch.compiler.is_compiling():  # to compile a backward it is traced by a call
            return engine(outputs, *args, **kwargs)
        if not self.regions and self.looks and not self.depth:
            self._guard(self._watch_nodes, outputs)
        return super()._run(engine, outputs, args, kwargs)

    # -- what is seen --------------------------------------------------------------------------------------------

    @property
    def looks(self) -> bool:
        """Whether what the program does now is told one by one."""
        return not (self.looking or self.over or self.in_step or self.depth) and (self.count < MOST_SEEN)

    def see(self, name: str, place: list[Any], **facts: Any) -> int:
        """Note one thing that was done; returns its number."""
        key = (name, *place[:2], self.steps)
        self.met[key] = number = self.met.get(key, -1) + 1
        self.count += 1
        self.write({"k": "seen", "i": self.count, "name": name, "place": place, "at": [self.steps, number], **facts})
        return self.count

    def sizes(self, values: Any) -> list[Any]:
        """The floating-point tensors among these, measured; None for each other value."""
        values = values if isinstance(values, tuple | list) else (values,)
        return [measured(self.torch, v) if self.has_numbers(v) else None for v in values[:20]]

    def has_numbers(self, value: Any) -> bool:
        """Whether it is a tensor whose values may differ by rounding."""
        return isinstance(value, self.torch.Tensor) and value.is_floating_point() and has_memory(value)

    def note_dtype(self, dtype: Any) -> None:
        """The coarsest rounding in this run is what the gradients of another may be off by."""
        eps = self.torch.finfo(dtype).eps
        if eps > self.coarsest:
            self.coarsest = eps
            self.write({"k": "coarsest", "eps": eps})

    def place(self, frame: Any) -> list[Any]:
        """The innermost expression of the user's: file, line, column, end line, end column."""
        frame = users_frame(frame)
        return ["", 0, 0, 0, 0] if frame is None else self._place_of(frame.f_code, frame.f_lasti)

    def _place_of(self, code: Any, lasti: int) -> list[Any]:
        return [shown_file(code.co_filename, self.witness.cwd), *position(code, lasti)]

    # -- operations, modules, nodes ------------------------------------------------------------------------------

    def _entering(self, module: Any, args: tuple[Any, ...]) -> Any:
        if not self.modules:
            self.paths = {
                id(m): f"{type(m).__name__} `{name}`" if name else type(m).__name__
                for name, m in module.named_modules()
            }
        self.modules.append(self.paths.get(id(module), type(module).__name__))
        return self.move_inputs(args) if len(self.modules) == 1 else None

    def _left(self, *_: Any) -> None:
        if self.modules:
            self.modules.pop()
        if not self.modules:
            self._guard(self.write_back)

    def move_inputs(self, args: tuple[Any, ...]) -> Any:
        """What enters the first module, moved as the weights are; None where that is not asked for."""
        if not self.eps or self.over:
            return None
        data = [a for a in args if self._is_data(a)]
        if len({a.untyped_storage()._cdata for a in data}) < len(data):
            return None  # what is written to one of them is written to the other
        moved = self._guard(lambda: [self._moved(a) if self._is_data(a) else a for a in args])
        if moved is None:
            return None
        self.copied += [(a, m) for a, m in zip(args, moved, strict=True) if m is not a]
        return tuple(moved)

    def write_back(self) -> None:
        """A copy has entered: what the program has written to that, it meant to write to its own."""
        for mine, copy in self.copied:
            if not copy.is_inference() and copy._version:
                mine.data.copy_(copy.detach())
        self.copied.clear()

    def _is_data(self, value: Any) -> bool:
        return self.has_numbers(value) and not value.requires_grad

    def done(self, name: str, result: Any) -> None:
        """An operation has given this."""
        sizes = self.sizes(result)
        if any(size is not None for size in sizes):
            module = self.modules[-1] if self.modules else ""
            self.see(name, self.place(sys._getframe(3)), sizes={"out": sizes}, module=module)

    def _watch_nodes(self, outputs: Any) -> None:
        for node, following in islice(nodes_behind(map(grad_fn_of, outputs)), WALK_LIMIT):
            if following:
                self._watch_node(node)

    def _watch_node(self, node: Any) -> None:
        stack = kept_in(node)
        raw = stack.raw if isinstance(stack, Stack) else []
        at = next((i for i in range(0, len(raw), 2) if is_user_file(raw[i].co_filename)), None)
        place = self._place_of(raw[at], raw[at + 1]) if at is not None else ["", 0, 0, 0, 0]

        def ran(given: Any, received: Any) -> None:
            if self.count < MOST_SEEN:
                told = {"received": self.sizes(received), "given": self.sizes(given)}
                self.see(node.name(), place, sizes=told)

        node.register_hook(lambda given, received: self._guard(ran, given, received))


def operations(trace: Compared) -> Any:
    """A mode that tells of each operation; it draws random numbers as another run does, and computes in double."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if trace.looking or not hasattr(func, "_schema"):  # one of higher order runs others, which come here
                return func(*args, **(kwargs or {}))
            if trace.torch.Tag.nondeterministic_seeded in func.tags:
                result = alike(func, args, kwargs or {}, trace.double)
            elif trace.double:
                result = doubled(func, args, kwargs or {}, trace.depth > 0)
            else:
                result = func(*args, **(kwargs or {}))
            name = func._schema.name.removeprefix("aten::")
            if trace.looks and not name.startswith(_UNWRITTEN):
                trace._guard(trace.done, name, result)
            for value in result if isinstance(result, tuple | list) else (result,):
                if not trace.double and trace.has_numbers(value):
                    trace.note_dtype(value.dtype)
            return result

    return Operations()  # type: ignore[no-untyped-call]


# -- compiled regions ----------------------------------------------------------------------------------------------


def watch_compile(trace: Compared) -> None:
    """Let each region that `torch.compile` makes tell what it is given and gives, compiled or not."""
    compile_ = torch.compile

    @wraps(compile_)
    def compiled(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compiled(function, **options)
        made = compile_(model, **options)
        config = sys.modules.get("torch._inductor.config")
        if config is not None:
            config.fallback_random = True  # type: ignore[attr-defined]  # draws as uncompiled code does
        owner = getattr(model, "__self__", model)
        owned = isinstance(owner, torch.nn.Module)
        named = type(owner).__name__ if owned else getattr(model, "__qualname__", "region")
        modules = [owner] if owned else [v for v in _read_by(model) if isinstance(v, torch.nn.Module)]
        held = [p for module in modules for p in module.parameters()]
        if not isinstance(made, torch.nn.Module):
            return wraps(made)(_region(trace, named, held, made))
        made.forward = _region(trace, named, held, made.forward)
        return made

    torch.compile = compiled


def _read_by(function: Any) -> list[Any]:
    """The values that a function reads from around it, as far as they are there when it is compiled."""
    code = getattr(function, "__code__", None)
    names = code.co_names if code is not None else ()
    cells = [c.cell_contents for c in getattr(function, "__closure__", None) or () if c != CellType()]
    return [*cells, *(function.__globals__[n] for n in names if n in function.__globals__)]


def _region(trace: Compared, name: str, held: list[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not trace.looks:
            return function(*args, **kwargs)
        args = trace.move_inputs(args) or args
        result = function(*args, **kwargs)
        trace._guard(trace.write_back)
        trace._guard(saw, sys._getframe(1), args, result)
        return result

    def saw(frame: Any, args: tuple[Any, ...], result: Any) -> None:
        outputs = [t for t in torch.utils._pytree.tree_leaves(result) if trace.has_numbers(t)]
        keys = [trace.parameters[id(p)][0] for p in held if id(p) in trace.parameters]
        number = trace.see(name, trace.place(frame), sizes={"out": trace.sizes(outputs)}, drawn=draws(torch), keys=keys)
        for value in (*outputs, *held):
            if value.is_floating_point():
                trace.note_dtype(value.dtype)
                if torch.is_autocast_enabled(value.device.type):
                    trace.note_dtype(torch.get_autocast_dtype(value.device.type))
        for stage, tensors in (("received", outputs), ("given", torch.utils._pytree.tree_leaves(args))):
            watched = [t for t in tensors if trace.has_numbers(t) and t.requires_grad]
            for at, tensor in enumerate(watched[:20]):
                tensor.register_hook(telling(number, stage, at))

    def telling(number: int, stage: str, at: int) -> Callable[[Any], None]:
        def tell(gradient: Any) -> None:
            size = measured(torch, gradient)
            trace.write({"k": "size", "i": number, "stage": stage, "at": at, "size": size})

        return lambda gradient: trace._guard(tell, gradient)

    return called


# Operations of a run that is compared with one in other numbers: random ones draw alike, the others compute in
# double. Below autograd, which neither sees nor minds it. For runs that graphdoc starts by itself alone.

_DEVICE = re.compile(r"(?:cuda|xpu|mps|hpu|npu|xla)(?::\d+)?")


def alike(func: Any, args: Any, kwargs: Any, double: bool) -> Any:
    """A random operation, drawn on the CPU, and for one in ``double`` as float32 would draw: another dtype or device
    has another stream of numbers."""
    if func._schema.name == "aten::native_dropout" and args[2] is not False:
        kept = torch.empty(args[0].shape).bernoulli_(1 - args[1]).to(args[0].device)  # as on the CPU
        return args[0] * (kept / (1 - args[1]) if args[1] < 1 else kept).to(args[0].dtype), kept.bool()
    given = list(tensors_in((args, kwargs)))
    device = next((t.device for t in given), kwargs.get("device"))

    def back(value: Any) -> Any:
        if not double or not _is_low(value):
            return value.to(device or value.device)
        return _note(value.to(device or value.device, torch.float64), _declared(args, kwargs))

    try:
        drawn = {id(t): t.to("cpu", torch.float32 if double and t.dtype is torch.float64 else t.dtype) for t in given}
        other = {**kwargs, "device": "cpu"} if kwargs.get("device") is not None else kwargs
        return _in(func, args, other, drawn, back)
    except (RuntimeError, TypeError):
        return func(*args, **kwargs)  # of another device's own, say


_SHAPING = ("resize_", "set_", "resize_as_")


def doubled(func: Any, args: Any, kwargs: Any, in_backward: bool) -> Any:
    """The operation in float64 wherever it is one in lower precision. What takes no doubles runs as it is: so does the
    engine when it gives a gradient the dtype that it is to have (``in_backward``)."""
    schema = func._schema
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    as_it_is = torch.Tag.inplace_view in func.tags or schema.name.endswith(_SHAPING)
    if as_it_is or (views and schema.name != "aten::lift_fresh") or (in_backward and schema.name == "aten::_to_copy"):
        return func(*args, **kwargs)
    tensors = list(tensors_in((args, kwargs)))
    declared = _declared(args, kwargs)
    wanted = dict(kwargs)
    if getattr(wanted.get("dtype"), "is_floating_point", False):
        wanted["dtype"] = torch.float64

    def back(value: Any) -> Any:
        value = value.double() if _is_low(value) else value
        return _note(value, declared) if value.dtype is torch.float64 else value

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return _in(func, args, wanted, {id(t): t.double() for t in tensors if _is_low(t)}, back)
    except (RuntimeError, TypeError):
        single = {id(t): t.float() for t in tensors if t.dtype is torch.float64 and t.numel() == 1}
    finally:
        torch.set_default_dtype(default)
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        if not single:
            raise
        return _in(func, args, kwargs, single, back)  # a scale, say, which has to be a float


def _in(func: Any, args: Any, kwargs: Any, others: dict[int, Any], back: Callable[[Any], Any]) -> Any:
    """The operation on ``others`` in the place of these tensors, by id: what it has written to one of them is written
    to the program's, and what else it gives is handed ``back``."""
    tree_map = torch.utils._pytree.tree_map
    result = func(*tree_map(lambda v: others.get(id(v), v), args), **tree_map(lambda v: others.get(id(v), v), kwargs))
    exchanged = [t for t in tensors_in(written_by(func, args, kwargs)) if id(t) in others]
    for tensor in exchanged:
        tensor.copy_(others[id(tensor)])
    originals = {id(others[id(t)]): t for t in exchanged}

    def given(value: Any) -> Any:
        if id(value) in originals or not isinstance(value, torch.Tensor):
            return originals.get(id(value), value)
        return back(value)

    return tree_map(given, result)


# What the program takes for float32 is float64 in memory: `.double()` would be the tensor itself, and `.float()` none.


def _declared(args: Any, kwargs: Any) -> Any:
    """The dtype that the operation's result has in the program's own precision."""
    if getattr(kwargs.get("dtype"), "is_floating_point", False):
        return kwargs["dtype"]
    given = [t for t in tensors_in((args, kwargs)) if t.is_floating_point()]
    given = [t for t in given if t.dim()] or given  # a number in a tensor does not widen the others
    return reduce(torch.promote_types, map(_dtype_of, given)) if given else torch.get_default_dtype()


def _dtype_of(tensor: Any) -> Any:
    """A tensor's dtype in the program's own precision."""
    return getattr(tensor.untyped_storage(), "_declared", tensor.dtype) if has_memory(tensor) else tensor.dtype


def _note(tensor: Any, dtype: Any) -> Any:
    """The tensor, whose memory is known from now on, with each view of it and each parameter, to be of this dtype."""
    if dtype is not tensor.dtype and has_memory(tensor):
        tensor.untyped_storage()._declared = dtype  # PyTorch keeps the object while anything uses the memory
    return tensor


_DTYPES = {"double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16"}
_CONVERTING = ("to", "type", "type_as", *_DTYPES)


def _converted(func: Any, args: Any, kwargs: Any) -> Any:
    """What a conversion of a tensor in float64 gives: the tensor itself where it is one without us, else another."""
    named = _DTYPES.get(func.__name__)
    others = (*args[1:], *kwargs.values())
    meant = (v for v in others if isinstance(v, torch.dtype))
    wanted = getattr(torch, named) if named else next(meant, None)
    if wanted is None:
        wanted = next((_dtype_of(v) for v in others if isinstance(v, torch.Tensor)), None)
    if wanted is None or not wanted.is_floating_point:
        return func(*args, **kwargs)
    kept = {"memory_format": kwargs["memory_format"]} if "memory_format" in kwargs else {}
    copied = kwargs.get("copy", False) or wanted is not _dtype_of(args[0])
    return _note(args[0].to(torch.float64, copy=copied, **kept), wanted)


def moving_to_cpu(double: bool) -> Any:
    """A mode in which what names another device means the CPU; in ``double`` what converts a tensor still does."""
    from torch.overrides import TorchFunctionMode

    gradient: Any = torch.Tensor.grad

    def here(value: Any) -> Any:
        kind = torch.device(value).type if isinstance(value, str) and _DEVICE.fullmatch(value) else ""
        kind = value.type if isinstance(value, torch.device) else kind
        return torch.device("cpu") if kind not in ("", "cpu", "meta") else value

    class MovingToCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in ("cuda", "xpu"):
                return args[0]
            args, kwargs = tuple(map(here, args)), {name: here(value) for name, value in (kwargs or {}).items()}
            if double and name in _CONVERTING and args and getattr(args[0], "dtype", None) is torch.float64:
                return _converted(func, args, kwargs)
            result = func(*args, **kwargs)
            if double and func == gradient.__get__ and result is not None:
                _note(result, _dtype_of(args[0]))  # the engine had nothing to convert
            return result

    return MovingToCpu()


def _is_low(tensor: Any) -> bool:
    return tensor.dtype in (torch.float32, torch.bfloat16, torch.float16)
