"""What is kept of an operation without a graph: its record, where grad mode was switched off, ``Variable(t)``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from operator import attrgetter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphdoc.capture.graph.walk import reached
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file, outwards, shown_file
from graphdoc.capture.places.frames import frames_of, site_of
from graphdoc.capture.process.hooks import hook_in
from graphdoc.capture.tensors.living import Ref
from graphdoc.evidence import Frame

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

# ``Variable(t)`` and ``nn.Parameter(t)``: a detached ``t``, made where no mode sees it.

NAMES = frozenset({"Variable", "Parameter"})


def watch_wrapped(torch: Any, note: Callable[[str, Any, Any, Any], Any]) -> Callable[[], None]:
    """Call ``note(name, args, kwargs, result)`` for each, of parameters for those that are made of what requires
    gradients; what it returns, if anything, is the result. Returns what ends that. For second runs alone.

    What is called is a class, so the hook stands in that class's own class.
    """
    kinds = (torch.autograd.Variable, False), (torch.nn.Parameter, True)
    undoing = ExitStack()
    for kind, learned in kinds:
        undoing.callback(_watch_made(kind, learned, note))
    return undoing.close


def _watch_made(kind: Any, learned: bool, note: Callable[[str, Any, Any, Any], Any]) -> Callable[[], None]:
    make = type.__call__

    def called(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = make(cls, *args, **kwargs)
        if cls is not kind or (learned and not (args and args[0].requires_grad and result.requires_grad)):
            return result
        other = note(kind.__name__, args, kwargs, result)
        return result if other is None else other

    return hook_in(type(kind), "__call__", called)


# Where grad mode was switched off: the ``with`` line or the decorator line, not the place inside torch.

Place = tuple[str, stacks.Seen, Any]
"""(kind, stack, the decorated function or None)."""
MOST_OPEN = 1_000
"""A program that switches off for ever in a loop is not remembered beyond this."""


class _Open(threading.local):
    """The switches that are open in this thread, innermost last: grad mode belongs to a thread."""

    def __init__(self) -> None:
        self.places: list[tuple[int, Place]] = []


class _Where:
    """Reads where a switch is thrown, and which function is decorated with it, from within what is inserted there."""

    def __init__(self) -> None:
        self._look = stacks.Look()
        self._plain: CodeType | None = None
        """The last function that threw one and is no decorator's."""

    def __call__(self) -> tuple[stacks.Seen, Any]:
        seen = self._look(4)  # __call__ < before < __enter__ or __init__ < who called it
        if seen[0] is self._plain:
            return seen, None
        function = _decorated(sys._getframe(2))
        if function is None:
            self._plain = seen[0]
        return seen, function


class Switches:
    """The grad-mode switches that are open now, innermost last, and the last one of each kind that was open.

    A training loop may switch at every step, or at every action that it samples, so what runs here does little.
    """

    def __init__(self, witness: Witness) -> None:
        self._open = _Open()
        self.last: dict[str, Place] = {}
        grad_mode = witness.torch.autograd.grad_mode
        for kind, begin, ends in (
            ("no_grad", "__enter__", ("__exit__",)),
            ("inference_mode", "__enter__", ("__exit__",)),
            # Called as a function it switches at once, and nothing need ever switch back.
            ("set_grad_enabled", "__init__", ("__exit__", "__call__")),
        ):
            switch = getattr(grad_mode, kind)
            before = self._entering(kind) if begin == "__enter__" else self._setting()
            witness.watch(switch, begin, f"switches of {kind}", before=before)
            for end in ends:
                witness.watch(switch, end, f"switches of {kind}", before=partial(self._left, kind))

    def _entering(self, kind: str) -> Callable[..., None]:
        where = _Where()

        def before(this: Any, *_: Any) -> None:
            if kind != "inference_mode" or this.mode:
                self._opened(this, (kind, *where()))

        return before

    def _setting(self) -> Callable[..., None]:
        where = _Where()
        passed: dict[int, CodeType] = {}

        def before(this: Any, mode: Any, *_: Any) -> None:
            caller = sys._getframe(2).f_code  # before < __init__ < who called it
            if id(caller) in passed:
                return
            # no_grad is made of this, and an optimizer's step uses it; a decorator has it copied by ``clone``.
            if not is_user_file(caller.co_filename) and caller.co_name != "clone":
                passed[id(caller)] = caller  # kept, so that its id stays its own
            elif mode:
                self._close(lambda _, place: place[0] == "set_grad_enabled")
            else:
                self._opened(this, ("set_grad_enabled", *where()))

        return before

    def _opened(self, this: Any, place: Place) -> None:
        places = self._open.places
        if len(places) > MOST_OPEN:
            del places[0]
        places.append((id(this), place))
        self.last[place[0]] = place

    def _left(self, kind: str, this: Any, *_: Any) -> None:
        if self._open.places:
            # An id alone may be another's by now: a function call that switches leaves no object behind.
            self._close(lambda ident, place: ident == id(this) and place[0] == kind)

    def _close(self, matches: Callable[[int, Place], bool]) -> None:
        """Forget the innermost switch of these, and all that were opened within it."""
        places = self._open.places
        for i in range(len(places) - 1, -1, -1):
            if matches(*places[i]):
                del places[i:]
                break

    def in_force(self, inference: bool) -> Place | None:
        """The switch by which nothing is recorded now: inference mode, while it is on, is stronger than the others."""
        places = [place for _, place in self._open.places]
        fitting = [p for p in places if (p[0] == "inference_mode") == inference]
        return next(reversed(fitting or places), None)


def _decorated(frame: FrameType | None) -> Any:
    """The function that ``@torch.no_grad()`` decorates, when the switch was thrown by torch's decorator wrapper."""
    near = islice(outwards(frame), 3)
    return next((f.f_locals.get("func") for f in near if is_wrapper(f.f_code)), None)


def is_wrapper(code: CodeType) -> bool:
    """Whether this is the function that torch's decorators put around the decorated one (torch/utils/_contextlib.py).

    Its name was ``decorate_context`` until PyTorch 2.14, and is that of the context manager since.
    """
    return "func" in code.co_freevars and code.co_filename.replace("\\", "/").endswith("torch/utils/_contextlib.py")


def is_users(place: Place) -> bool:
    """Whether the user's code threw this switch, by a block, a call or a decorator, rather than a library inside."""
    _, seen, function = place
    code = getattr(function, "__code__", None) or seen[0]
    return is_user_file(code.co_filename)


def frames_of_place(place: Place, cwd: str) -> list[Frame]:
    """Frames of a switch; for a decorated function the innermost frame is the decorator's line."""
    _, seen, function = place
    frames = frames_of(stacks.stack_of_seen(seen), cwd)
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType) and is_user_file(code.co_filename):
        # co_firstlineno is the line of the first decorator (CPython 3.8 and later).
        line = code.co_firstlineno
        frames = [f for f in frames if f.user]
        frames.append(Frame(shown_file(code.co_filename, cwd), line, 0, line, 0, code.co_name))
    return frames


# What is kept of an operation whose result has no graph, and how such records lead back from one to the next.

MOST_FOLLOWED = 50_000
_NUMBERS = count()
NEAR = 20
"""Records behind a conversion whose values are taken to have left with it."""
DRAWS = {"sample", "sample_n", "multinomial", "normal", "bernoulli", "poisson"}


class Origin(NamedTuple):
    """Where something that has a graph was made; kept instead of the tensor, so that nothing is kept alive."""

    op: str
    raw: stacks.Stack | list[Any]


@dataclass(slots=True, eq=False)
class Record:
    """One result without a graph: the operation that made it and what went in."""

    op: str
    raw: stacks.Stack
    event: int
    recording: bool = True
    enabled: bool = True
    switch: Place | None = None
    integral: bool = False
    inputs: list[Record] = field(default_factory=list)
    counted: list[Record] = field(default_factory=list)  # those of the inputs of which whole numbers went in
    origins: list[Origin] = field(default_factory=list)
    leaves: tuple[Ref, ...] = ()
    parameters: list[tuple[Ref, stacks.Stack | None]] = field(default_factory=list)  # frozen ones, and where each was
    converted: bool = False  # numbers were made of it, or an array
    listed: bool = False
    nested: bool = False
    mixed: bool = False
    element_dims: int = 0
    choices: int = 0  # of an ``argmax``: along its axis
    loose: bool = False
    numbers: bool = False
    void: bool = False  # a product with the number zero
    written: str = ""  # what made the alias without a graph through which this is written
    left: int = -1  # the sequence number of what was converted
    sides: dict[int, tuple[frozenset[int], frozenset[int]]] | None = None
    """Of a difference that was detached: by the sequence number of either side, the leaves behind it and those that are
    only behind the other one."""
    beside: bool = False  # numbers that were added to what has the same leaves behind it
    made_of: frozenset[int] | None = None  # of a single number that was detached: the nodes that it is the sum of
    depth: int = 0
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @property
    def place(self) -> tuple[str, Any]:
        """The operation and where it stands: the same for what one expression makes again and again."""
        return self.op, site_of(self.raw)

    @property
    def behind(self) -> frozenset[int]:
        """The ids of the leaves behind what went in, as far as they live: a later tensor may get that of a dead one."""
        return frozenset(id(leaf) for ref in self.leaves if (leaf := ref()) is not None)

    @property
    def frozen(self) -> list[Any]:
        """The parameters that required no gradients when they went in, as far as they live."""
        return [p for ref, _ in self.parameters if (p := ref()) is not None]


def left_by(record: Record, converted: bool, recent: list[Record]) -> None:
    """Note a conversion or a detach of what has a graph, or a conversion of what was drawn from it: what comes of the
    number is not seen. What a conversion was given may have been detached before."""
    if converted:
        for r in records_behind([record], NEAR):
            r.converted = True
    drawn = (r for r in records_behind(record.inputs, NEAR) if converted and r.origins and r.op in DRAWS)
    left = record if record.origins else next(drawn, None)
    if left is not None and left not in recent[-1:]:
        recent.append(left)
        del recent[:-200]


def viewed(tensor: Any) -> Any:
    """What a view that was made without recording looks into: it requires gradients, and has no ``grad_fn``."""
    base = tensor._base if tensor.grad_fn is None else None
    return base if base is not None and base.requires_grad else tensor


def came_without_graph(value: Any, result: Any) -> bool:
    """Whether an operand had no graph when the operation took it: what was written in place has the result's now."""
    if value is not result or result.grad_fn is None:
        return not value.requires_grad
    edges = result.grad_fn.next_functions
    return len(edges) > 1 and edges[0][0] is None


def records_behind(
    starts: list[Record], most: int = MOST_FOLLOWED, taken: Callable[[Record], Iterable[Record]] = attrgetter("inputs")
) -> list[Record]:
    """The records that these were made from, nearest first; by what ``taken`` tells of each."""
    return list(reached(starts, taken, most))


def is_nothing(name: str, args: Any, result: Any) -> bool:
    """Whether an operation has given back what it was given, unwritten: ``x.to(device)`` of what is there."""
    return bool(args) and result is args[0] and not name.endswith("_") and name not in NAMES
