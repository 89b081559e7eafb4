"""The watch for values that are not finite, and ``--nan stop``, which ends the program at the first that matters.

Looked at is the loss of each backward call: reading one number from the processor's own memory is no operation, so no
mode, profiler or hook of the program's sees it. On another device that would wait for it, so there it is done rarely.
What made the value is the question of a second run (``graphdoc.capture.second_run.close_look``).
"""

from __future__ import annotations

import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from ctypes import string_at
from itertools import chain, islice, pairwise
from sys import _getframe
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from graphdoc.capture.events.journal import Seen, leaves_behind
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places.code_places import OURS, entries_of
from graphdoc.capture.places.frames import user_stack
from graphdoc.capture.process.hooks import hook_in
from graphdoc.capture.process.quiet import Unseen
from graphdoc.capture.tensors.access_paths import roots_of
from graphdoc.capture.tensors.facts import inside_of_func, parameters_of, user_frames
from graphdoc.capture.tensors.names import Census
from graphdoc.capture.tensors.number_facts import numbers_of
from graphdoc.evidence import Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


KIND = "nonfinite"
"""Of the sign that is left: ``facts`` has ``good``, the journal index of the last call known to be finite before it,
``roots`` (indices of calls whose loss was not) and ``values`` (how the program holds single numbers that are not);
``settled`` is the index of a call at which a GradScaler had found its scale, where it looked for one; ``scaler`` tells
of a GradScaler that leaves out every step (``ScalerCalls.starved``); ``all`` is there where the user asks for the
values of any operation, which only the second run sees."""
LIMIT = 1e300
REMEMBERED = 400
"""The latest backward calls whose loss was not finite; as many as the journal keeps of all."""
RARELY = 5.0
"""Seconds between two looks at a loss that lies on another device."""
MOST_ELEMENTS = 20_000_000
"""Of the parameters of one optimizer that are looked at when the program ends."""
MOST_NAMES = 200
CLOSELY = 12
"""Steps of an optimizer after which its parameters are looked at each time."""


class FiniteWatch:
    """What became of the numbers in this process; ``root`` is called for every backward call."""

    def __init__(self, witness: Witness) -> None:
        torch = witness.torch
        self._witness = witness
        self._torch = torch
        self._tensor = torch.Tensor
        self._plain = {torch.Tensor, torch.nn.Parameter}
        self._formats = {torch.float64: "d", torch.float32: "f", torch.float16: "e", torch.bfloat16: "f"}
        self._due = 0.0
        self.first = -1
        """Journal index of the first backward call whose loss was not finite."""
        self.settled = False
        """Whether a GradScaler has found its scale: what overflowed before was its way to it."""
        self.before = -1
        """Journal index of the call before ``good``."""
        self.good = -1
        """Journal index of the latest before it that was looked at and finite."""
        self._left: dict[int, list[str]] = {}
        """By optimizer: its parameters that were not finite, where they were not at its latest step."""
        self.bad: deque[int] = deque(maxlen=REMEMBERED)
        self.undefined: deque[int] = deque(maxlen=REMEMBERED)
        """Those of them whose loss was nan."""
        self.wanted = "nan-all" in witness.words
        """The user asks for the values of every operation (``--nan all``)."""

    def root(self, outputs: Any, index: int) -> None:
        """A backward call begins, and the program's modes are left (``torch.set_default_device`` is one that stays on).

        Never raises, and leaves alone whatever is not a plain tensor of one element.
        """
        try:
            tensor = inside_of_func(outputs[0], self._torch)
            if type(tensor) is not self._tensor or tensor.numel() != 1:
                return
            if tensor.is_cpu:
                value = self._first_of(tensor)
            else:
                now = time.monotonic()
                if now < self._due or (tensor.is_cuda and self._torch.cuda.is_current_stream_capturing()):
                    return  # to wait for the device would end the capture of a CUDA graph
                value = float(tensor.detach())
                self._due = time.monotonic() + RARELY
        except Exception:
            return  # without memory of its own: fake, sparse, in a vmap
        if -LIMIT < value < LIMIT:
            if self.first >= 0 and self._witness.scaler.used:
                self.first, self.settled = -1, True
            if self.first < 0:
                self.before, self.good = self.good, index
            return
        if self.first < 0:
            self.first = index
        self.bad.append(index)
        if value != value:
            self.undefined.append(index)

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped: look at a number of its first parameter and at one of its last, of the later steps
        at every fourth. It may be gone when the run ends; a loss sees what stays in between. Never raises."""
        if seen.steps % 4 and seen.steps > CLOSELY and seen.id not in self._left:
            return
        try:
            groups = optimizer.param_groups
            for p in (groups[0]["params"][0], groups[-1]["params"][-1]):
                if type(p) in self._plain and p.is_cpu and not -LIMIT < self._first_of(p) < LIMIT:
                    break
            else:
                self._left.pop(seen.id, None)
                return
        except Exception:
            return
        if seen.id not in self._left:
            frame = _getframe(1)
            with Unseen(self._torch, self._witness.anomaly, frame):
                names = Census(roots_of(user_frames(frame)), self._torch).parameter_names
                self._left[seen.id] = self._of(optimizer, names)

    def _first_of(self, tensor: Any) -> float:
        """The first number of a tensor in the processor's memory; 0 where that is given back."""
        memory, kind = tensor.data_ptr(), self._formats[tensor.dtype]
        read = string_at(memory, tensor.element_size()) if memory else bytes(8)
        if tensor.dtype is self._torch.bfloat16:  # the upper half of a float32
            read = struct.pack("I", int.from_bytes(read[:2], sys.byteorder) << 16)
        return float(struct.unpack_from(kind, read)[0])

    # -- the end -------------------------------------------------------------------------------------------------

    def found(self) -> bool:
        """Whether a look at the end is worth its while: something was not finite, or an exception ends the run."""
        witness = self._witness
        return bool(self.wanted or self.bad or witness.frames or witness.scaler.starved) or bool(self._parameters({}))

    def tell(self, evidence: Evidence) -> None:
        """Add what is wrong at the end of the run, if all that can still be seen is not finite.

        A program that met such a value and went on with finite ones has dealt with it, unless a step used what a loss
        of nan gave. With a GradScaler only the parameters count: a loss or gradient that overflows is its way to find
        the scale, unless it has left out every step down to a scale that scales no more.
        """
        witness = self._witness
        with Unseen(self._torch, witness.anomaly, None):
            autopsy = Autopsy(witness, witness.frames)
            parameters, values = self._parameters(autopsy.census.parameter_names), self._values(autopsy)
            starved = witness.scaler.starved
            roots = [] if witness.scaler.used and not starved else self._still_bad(autopsy)
            stopped = witness.stopping is not None and witness.stopping.stopped
            if not (self.wanted or parameters or roots or values or starved or stopped):
                return
            if not evidence.events:
                autopsy.fill_program(evidence)
            self._add(evidence, parameters, values, roots)

    def tell_failed(self, evidence: Evidence, index: int) -> None:
        """Anomaly mode of the user's own has stopped the program at a gradient that is nan, in this call."""
        self._add(evidence, [], [], [index])

    def _add(self, evidence: Evidence, parameters: list[str], values: list[str], roots: list[int]) -> None:
        first = self.first if self.first >= 0 else roots[0] if roots else -1
        facts: dict[str, Any] = {"good": self.good, "values": values, "roots": roots, "calls": len(self.bad)}
        if self.wanted:
            facts["all"] = True
        if self.settled:
            facts["settled"] = max(self.before, 0)
        starved = self._witness.scaler.starved
        if starved is not None:
            facts["scaler"] = {**starved, "stack": user_stack(starved["stack"], self._witness.cwd)}
        if "scaler" not in evidence.extras:
            self._witness.scaler.fill(evidence)
        call = evidence.event(first)
        stack = call.stack if call is not None else []
        evidence.signs.append(Sign(KIND, stack, parameters=parameters, event=first, count=len(self.bad), facts=facts))

    def _still_bad(self, autopsy: Autopsy) -> list[int]:
        """Journal indices of the latest backward calls of their places, where the loss was not finite, and of those
        whose nan a step has used."""
        latest = {id(e.place): e.index for e in autopsy.entries if e.kind in ("backward", "grad")}
        bad = set(self.bad)
        return sorted({index for index in latest.values() if index in bad} | self._stepped(autopsy))

    def _stepped(self, autopsy: Autopsy) -> set[int]:
        """Journal indices of the calls whose loss was nan and behind which an optimizer stepped, before any other call
        and without clearing the gradients: nobody minded."""
        undefined = set(self.undefined)
        calls = [e for e in autopsy.entries if e.kind in ("backward", "step", "zero_grad")]
        return {e.index for e, after in pairwise(calls) if e.index in undefined and after.kind == "step"}

    def _parameters(self, names: dict[int, str]) -> list[str]:
        """Names of parameters that an optimizer holds and that are not finite now, or were not when it was seen last;
        empty for one without a name."""
        every = self._witness.journal.optimizers.values()
        lists = (self._left.get(s.id, ()) if (o := s.ref()) is None else self._of(o, names) for s in every)
        return [*islice(chain.from_iterable(lists), MOST_NAMES)]

    def _of(self, optimizer: Any, names: dict[int, str]) -> list[str]:
        """Those of one optimizer; of what it never gets a gradient of, such values were there before its steps."""
        found: list[str] = []
        elements = 0
        groups = getattr(optimizer, "param_groups", None)
        lists = [g.get("params") for g in groups] if isinstance(groups, list) else []
        held = [p for each in lists if isinstance(each, list) for p in each if isinstance(p, self._tensor)]
        state = optimizer.state if isinstance(getattr(optimizer, "state", None), dict) else {}
        for p in [p for p in held if p.grad is not None or p in state] or held:
            elements += p.numel()
            if elements > MOST_ELEMENTS or len(found) >= MOST_NAMES:
                break
            if not self.is_finite(p):
                found.append(names.get(id(p), ""))
        return found

    def _values(self, autopsy: Autopsy) -> list[str]:
        """Names of single numbers that are nan, where an exception has ended the program in front of its backward."""
        found = []
        for ident in autopsy.census.tensor_paths if self._witness.frames else ():
            tensor = autopsy.census.tensors[ident]
            if tensor.numel() == 1 and grads(tensor) and not self.is_finite(tensor):
                found.append(autopsy.census.holders(ident, True, autopsy.cwd)[0].path)
        return found[:20]

    def is_finite(self, tensor: Any) -> bool:
        """Whether all elements are; True for what cannot be asked."""
        torch = self._torch
        try:
            numbers = numbers_of(tensor) if tensor.is_floating_point() or tensor.is_complex() else None
            return numbers is None or bool(torch.isfinite(numbers).all())
        except Exception:
            return True


def grads(tensor: Any) -> bool:
    """Whether a tensor takes part in a graph."""
    try:
        return bool(tensor.requires_grad)
    except Exception:
        return False


# ``--nan stop``: ends the program where nan first reaches a loss, a gradient that is used, or a parameter. What a
# mask makes harmless never gets there, and infinities are left to the program: ``best = inf``, a mask's ``-inf``, and
# a GradScaler on its way to the right scale. With such a scaler only the parameters count.

WORDS = "(graphdoc run --nan stop)"


class Stopping:
    """Looks at every loss and every gradient; as slow as that is."""

    def __init__(self, witness: Witness) -> None:
        self._torch = witness.torch
        self._witness = witness
        self.stopped = False
        self._leaves: dict[int, Any] = {}

    def watch(self) -> list[Callable[[], None]]:
        """Look at the parameters after each step; returns what undoes it."""
        from torch.optim import optimizer

        return [optimizer.register_optimizer_step_post_hook(self._stepped).remove, _keep_out_of_traceback()]

    def before(self, outputs: Any, roots: list[Any]) -> None:
        """A backward call begins.

        Raises:
            FloatingPointError: what it starts from is nan.
        """
        self._leaves = dict(leaves_behind(roots) or {})
        if not self._witness.scaler.used and any(self._is_nan(inside_of_func(t, self._torch)) for t in outputs):
            self._stop("the loss of this backward call is nan")

    def after(self) -> None:
        """It has ended.

        Raises:
            FloatingPointError: a gradient that it has left is nan.
        """
        leaves, self._leaves = self._leaves, {}
        if not self._witness.scaler.used and sys.exc_info()[0] is None:
            bad = sum(1 for leaf in leaves.values() if leaf.grad is not None and self._is_nan(leaf.grad))
            if bad:
                self._stop(f"nan in the gradients of {bad} of {len(leaves)} parameters")

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if any(map(self._is_nan, parameters_of(optimizer))):
            self._stop(f"nan in the parameters after {type(optimizer).__name__}.step()")

    def _stop(self, why: str) -> NoReturn:
        self.stopped = True
        raise FloatingPointError(f"{why} {WORDS}")

    def _is_nan(self, tensor: Any) -> bool:
        try:
            return (numbers := numbers_of(tensor)) is not None and bool(self._torch.isnan(numbers).any())
        except Exception:
            return False


def _keep_out_of_traceback() -> Callable[[], None]:
    """Let Python print the exceptions that are raised here without the functions of ours that raise them."""
    told = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, FloatingPointError) and str(error).endswith(WORDS):
            trace = _without_ours(trace)
            error.__traceback__ = trace
        told(kind, error, trace)

    return hook_in(sys, "excepthook", hook)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept: TracebackType | None = None
    for entry in [e for e in entries_of(trace) if not e.tb_frame.f_code.co_filename.startswith(OURS)][::-1]:
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept
