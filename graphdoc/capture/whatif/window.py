"""What one fork does between two steps of an optimizer: something is moved first, each loss is noted, then it ends."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.walk import DEEP, nodes_behind
from graphdoc.capture.places.frames import frames_of, plain
from graphdoc.capture.tensors.facts import parameters_of, users_frame
from graphdoc.capture.tensors.saved import signed
from graphdoc.capture.whatif.forking import Forking
from graphdoc.capture.whatif.moves import slope_by

MOST_PLACES = 6
"""Lines with backward calls of one step whose gradients are told apart."""
PARALLEL = 0.999
"""The cosine between a gradient and what has become of it, from which on it was only scaled."""
MOST_STEPS = 8
"""Steps of one other optimizer, between two of the one that is looked at."""


class ForkWatch:
    """What a fork sees of the program, or does otherwise than it. It is entered when the fork begins and stays: the
    fork ends with its answer."""

    cwd = ""
    """The folder of the program, by which files are named."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        pass

    def began(self, outputs: Any) -> None:
        """A backward call begins."""

    def derives(self, outputs: Any) -> None:
        """A gradient is about to be taken that goes into a loss."""

    def told(self) -> Any:
        """What it answers, as plain data."""
        raise NotImplementedError

    def frames(self, raw: Any) -> list[dict[str, Any]]:
        """A stack as it is told; empty for none."""
        return plain(frames_of(raw, self.cwd)) if raw is not None else []


def answer_of(told: Any, otherwise: Any) -> Any:
    """What the watch of a fork has told; the other where the fork has only said why it could not go on."""
    return told["watch"] if isinstance(told, dict) else otherwise


@dataclass
class Move:
    """How a fork differs from the program: ``directions`` (one for each parameter of the optimizer, None for those that
    stay) are added ``step`` times; ``watch`` is entered in it, and tells more when it ends."""

    step: float = 0.0
    directions: list[Any] | None = None
    first: bool = False
    """The fork that leaves its gradients, and what the other optimizers make of theirs."""
    watch: ForkWatch | None = None


@dataclass
class Target:
    """An optimizer that is looked at, with the memory that its forks share."""

    torch: Any
    optimizer: Any
    number: int
    parameters: list[Any]
    others: list[Any]
    within: bool = False
    """It is looked at from one call of its closure to the next."""
    padded: list[tuple[int, int]] = field(default_factory=list)
    """Rows of parameters (by position) that an embedding leaves without gradient on purpose: these stay."""
    left_out: set[tuple[str, int]] = field(default_factory=set)
    """The lines of backward calls whose gradients are cleared before the step: no gradient of it is theirs."""
    given: Shared = field(init=False)
    after: dict[int, Shared] = field(init=False)

    def __post_init__(self) -> None:
        self.given = Shared(self.torch, self.parameters, MOST_PLACES)
        self.after = {id(o): Shared(self.torch, self.held_by(o), MOST_STEPS) for o in self.others}

    def held_by(self, other: Any) -> list[Any]:
        """The parameters of another optimizer that are not of this one as well."""
        mine = {id(p) for p in self.parameters}
        return [p for p in parameters_of(other) if id(p) not in mine]

    @staticmethod
    def fits(parameters: list[Any], others: list[Any]) -> bool:
        """Whether the memory may be had."""
        return Shared.fits(parameters, MOST_PLACES) and all(Shared.fits(parameters_of(o), MOST_STEPS) for o in others)


class Window:
    """Lives in a fork, from the end of one step to the beginning of the next."""

    def __init__(self, forking: Forking, target: Target, move: Move) -> None:
        self._forking = forking
        self._target = target
        self._move = move
        self._torch = target.torch
        self._calls: dict[Any, dict[str, Any]] = {}
        self._steps: dict[int, int] = {}
        self._before: list[Any] = []
        self._row: dict[str, Any] | None = None
        self._inputs: list[int] | None = None
        self._differentiated = False
        """Whether a gradient has been taken that can itself be differentiated."""
        self._within = target.within
        self._totals: list[tuple[int, float]] = []
        self._written: set[int] = set()
        self._padded: set[tuple[int, int]] = set()
        self._grads: list[Any] = []
        self._left: list[Any] = []
        """What stood in each ``.grad`` behind the latest call."""
        self._entered = ExitStack()

    def begin(self) -> None:
        """Move what is to be moved."""
        # Within its step an optimizer adds to what is there: a move stays.
        self._totals = self._states() if self._move.first and not self._within else []
        self._grads = [_state(p.grad) for p in self._target.parameters] if self._move.first else []
        if self._move.directions is not None:
            rows = [self._target.parameters[i].data[row] for i, row in self._target.padded]
            kept = [(row, row.clone()) for row in rows]
            with self._torch.no_grad():
                for p, direction in zip(self._target.parameters, self._move.directions, strict=True):
                    if direction is not None:
                        p.data.add_(direction.reshape(p.shape).to(p.dtype), alpha=self._move.step)
                for row, values in kept:
                    row.copy_(values)
        if self._move.watch is not None:
            self._move.watch.cwd = self._forking.cwd
            self._entered.enter_context(self._move.watch)

    def _states(self) -> list[tuple[int, float]]:
        """What shows a write: the version where it is counted, else the numbers. One that stands at the bound it is
        clipped to keeps its number."""
        return [(p._version, float(p.detach().double().sum())) for p in self._target.parameters]

    # -- backward calls ------------------------------------------------------------------------------------------

    def began(self, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call that no other call has made begins."""
        target, torch = self._target, self._torch
        inputs = args[3] if len(args) > 3 and not kwargs.get("accumulate_grad", True) else None
        second, self._differentiated = self._differentiated, self._differentiated or bool(args[2:3] and args[2])
        if inputs is not None:
            if self._move.watch is not None and bool(args[2:3] and args[2]):
                self._move.watch.derives(outputs)
            known = {id(p): i for i, p in enumerate(target.parameters)}
            self._inputs = [known.get(id(t), -1) for t in inputs]
            if max(self._inputs, default=-1) < 0:
                self._inputs = None
                return  # a gradient that is a part of the loss
        frame = users_frame(sys._getframe(1))
        place = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
        row = self._calls.get(place)
        if row is None:
            if len(self._calls) >= MOST_PLACES:
                self._forking.tell("it has too many backward calls in one step")
            row = self._calls[place] = {"file": place[0], "line": place[1], "had": [], "some": [], "second": False}
            row.update(dict.fromkeys(("value", "weights", "size", "along"), 0.0), times=0)
            row.update(dict.fromkeys(("cleared", "again", "left_out"), False))
        if inputs is None:
            self._find_cleared()
        # One that is made once more is measured as a whole; what is only handed back is never in ``.grad``.
        row["again"] |= row["cleared"] or inputs is not None
        self._row = row
        row["second"] |= second
        self._padded |= self._rows_left_out(outputs) if self._move.first else set()
        grads = args[0] if args else (None,) * len(outputs)
        for t, g in zip(outputs, grads, strict=False) if place not in target.left_out else ():
            if not isinstance(t, torch.Tensor):
                self._forking.tell("its backward call has roots that are no tensors")
            value = t.detach().double()
            weight = g.detach().double() if isinstance(g, torch.Tensor) else torch.ones_like(value)
            row["value"] += float((value * weight).sum())
            row["size"] += float((value * weight).abs().sum())
            row["weights"] += float(weight.sum())
        row["times"] += 1
        if self._totals:  # what the program itself puts there takes the place of any move
            self._written |= {i for i, (a, b) in enumerate(zip(self._totals, self._states(), strict=True)) if a != b}
        self._before = []
        if self._looks_at_gains and inputs is None:
            self._before = [None if p.grad is None else p.grad.detach().clone() for p in target.parameters]
        watch = self._move.watch
        if watch is not None and place not in target.left_out:
            watch.began(outputs)

    def _rows_left_out(self, outputs: Any) -> set[tuple[int, int]]:
        """The rows of parameters that are the padding of an embedding in this graph: they get no gradient by design."""
        positions, found = {id(p): i for i, p in enumerate(self._target.parameters)}, set()
        for node, following in islice(nodes_behind(tensor_roots(outputs)), DEEP - 1):
            row = signed(getattr(node, "_saved_padding_idx", -1))
            at = positions.get(id(getattr(following[0][0], "variable", None))) if row >= 0 else None
            found |= {(at, row)} if at is not None else set()
        return found

    def ended(self, result: Any) -> None:
        """The call has ended well."""
        row, self._row = self._row, None
        inputs, self._inputs = self._inputs, None
        if row is None:
            return
        if self._looks_at_gains:
            self._leave(row, self._gains(inputs, result))
        if self._move.first and inputs is None:
            self._left = [None if p.grad is None else p.grad.detach().clone() for p in self._target.parameters]
        if self._within:
            self._tell()

    def _gains(self, inputs: list[int] | None, result: Any) -> list[Any]:
        """What the call has given to each parameter; None where nothing."""
        parameters = self._target.parameters
        gains: list[Any] = [None] * len(parameters)
        if inputs is not None:
            for i, g in zip(inputs, result, strict=False):
                if i >= 0 and g is not None:
                    gains[i] = g.detach()
        else:
            for i, (p, before) in enumerate(zip(parameters, self._before, strict=True)):
                if p.grad is not None:
                    now = p.grad.detach()
                    gains[i] = now if before is None else now - before
                    if before is not None and not bool(gains[i].any()):
                        gains[i] = None  # it was there before, and nothing has come
        return [g if g is None or g.layout is self._torch.strided else g.to_dense() for g in gains]

    def _leave(self, row: dict[str, Any], gains: list[Any]) -> None:
        """Leave it, added to what calls of the same line have given; where something was moved, how much of it points
        that way."""
        given, directions = self._target.given, self._move.directions
        if directions is not None:
            row["along"] += slope_by([g if g is None else g.reshape(-1) for g in gains], directions)
            return
        number = list(self._calls.values()).index(row)
        had, some = set(row["had"]), set(row["some"])
        sums: list[Any] = [old.clone() if i in had else None for i, old in enumerate(given.read(number))]
        for i, gain in enumerate(gains):
            if gain is not None:
                sums[i] = gain.reshape(-1).float() + (sums[i] if i in had else 0.0)
                had.add(i)
                some |= {i} if bool(sums[i].any()) else set()
        given.write(number, sums)
        row["had"], row["some"] = sorted(had), sorted(some)

    @property
    def _looks_at_gains(self) -> bool:
        return self._move.first or self._move.directions is not None

    # -- steps ---------------------------------------------------------------------------------------------------

    def stepping(self, optimizer: Any, closure: bool) -> None:
        """An optimizer is about to step. What it computes within its step is differentiated there first."""
        if optimizer is not self._target.optimizer:
            return
        if closure and not self._calls:
            self._within = True
        else:
            self._tell()

    def stepped(self, optimizer: Any) -> None:
        """Another optimizer has stepped: it is left where it would be if nothing had been moved."""
        shared = self._target.after.get(id(optimizer))
        if shared is None:
            return
        count = self._steps.get(id(optimizer), 0)
        self._steps[id(optimizer)] = count + 1
        if count >= MOST_STEPS:
            self._forking.tell("another optimizer steps too often in between")
        held = self._target.held_by(optimizer)
        if self._move.first:
            shared.write(count, [p.detach() for p in held])
        else:
            with self._torch.no_grad():
                for p, value in zip(held, shared.read(count), strict=True):
                    p.data.copy_(value.reshape(p.shape))

    def _assigned(self) -> list[int]:
        """Parameters to which the program gives a gradient by itself: no call does, and a new one is there."""
        had = {i for row in self._calls.values() for i in row["had"]}
        states = enumerate(zip(self._target.parameters, self._grads, strict=True))
        new = (i for i, (p, before) in states if p.grad is not None and _state(p.grad) != before and i not in had)
        return [i for i in new if bool(self._target.parameters[i].grad.any())]

    def _turned(self) -> bool:
        """Whether a gradient points elsewhere than the latest call has left it; a scaled one does not."""
        pairs = zip(self._left, (p.grad for p in self._target.parameters), strict=False)
        dense = ((a.to_dense().double(), b.to_dense().double()) for a, b in pairs if a is not None and b is not None)
        return any(float((a * b).sum()) < PARALLEL * float(a.norm() * b.norm()) for a, b in dense if a.shape == b.shape)

    def _find_cleared(self) -> None:
        """Note the calls of which no parameter has its gradient any more."""
        for row in self._calls.values() if self._move.first else ():
            row["cleared"] |= bool(row["some"]) and not self._with_gradient(row["some"])

    def _with_gradient(self, chosen: Iterable[int]) -> set[int]:
        grads = ((i, self._target.parameters[i].grad) for i in chosen)
        return {i for i, g in grads if g is not None and bool(g.any())}

    def _leave_out_cleared(self) -> None:
        """What a call has given, and was cleared before the step, is no part of it; unless the program then puts a
        gradient there by itself: that may be made of it."""
        self._find_cleared()
        cleared = [row for row in self._calls.values() if row["cleared"] and not row["again"]]
        given = {i for row in self._calls.values() if row not in cleared for i in row["had"]}
        for row in cleared:
            if not self._with_gradient(set(row["some"]) - given):
                row.update(had=[], some=[], value=0.0, size=0.0, weights=0.0, left_out=True)

    def _tell(self) -> None:
        self._leave_out_cleared()
        told = {"calls": list(self._calls.values()), "written": sorted(self._written), "within": self._within}
        if self._move.first:
            told |= {"padded": sorted(self._padded), "assigned": self._assigned(), "turned": self._turned()}
        watch = self._move.watch
        self._forking.tell({**told, "watch": watch.told()} if watch is not None else told)


def _state(grad: Any) -> tuple[int, int] | None:
    return None if grad is None else (id(grad), grad._version)


# Numbers that a fork leaves for the program: memory that both have, laid out by the parameters that it is for.

MOST = 20_000_000
"""Numbers that one such memory may hold."""


class Shared:
    """Rows of float32, one after the other; ``width`` numbers each."""

    def __init__(self, torch: Any, tensors: list[Any], rows: int) -> None:
        self._torch = torch
        self.sizes = [int(t.numel()) for t in tensors]
        self.width = sum(self.sizes)
        self.rows = rows if self.width else 0
        self._memory = mmap.mmap(-1, max(4 * self.width * self.rows, 4))
        self._flat = torch.frombuffer(self._memory, dtype=torch.float32)

    @staticmethod
    def fits(tensors: list[Any], rows: int) -> bool:
        """Whether so many rows for these may be had."""
        return sum(int(t.numel()) for t in tensors) * rows <= MOST

    def write(self, row: int, values: list[Any]) -> None:
        """Write one row: a tensor, or None for zeros, for each of those that it was made for."""
        for part, value in zip(self.read(row), values, strict=True):
            if value is None:
                part.zero_()
            else:
                part.copy_(value.reshape(-1))

    def read(self, row: int) -> list[Any]:
        """One row, as flat tensors that look into the memory."""
        return list(self._flat[row * self.width : (row + 1) * self.width].split(self.sizes))
