"""The trace of a trial run: what backward calls gave, what steps used, how large both were; and its file."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Any

from graphdoc.capture.graph.walk import VIEWS, nodes_behind
from graphdoc.capture.places.code_places import shown_file
from graphdoc.capture.process.hooks import stand_before_engine
from graphdoc.capture.process.in_threads import in_each_thread
from graphdoc.capture.tensors.access_paths import roots_of
from graphdoc.capture.tensors.facts import grad_fn_of, parameters_of, user_frames, users_frame
from graphdoc.capture.tensors.names import Census
from graphdoc.capture.tensors.number_facts import has_memory, numbers_of
from graphdoc.capture.trials.reference import Copying, SingleViews, draws, run_straight, seed
from graphdoc.capture.trials.trace_end import Ending

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


# Sizes that a trial run records: of gradients and of graphs.

WALK_LIMIT = 20_000
"""Nodes of a graph that are counted."""
MOST_CLONED = 20_000_000
"""Elements of gradients that are copied to tell what one call has added; beyond it only the sums are compared."""
SAMPLED = 4096
"""Elements of a gradient that are looked at for what its size does not tell."""
_PRIMES = (40503, 48271, 69621, 16807)
"""One pattern of signs of each."""
_WALKED = "graphdoc_walked"


def absolute_sum(torch: Any, tensor: Any) -> float:
    """The sum of absolute values in float64, of this rank's part where a tensor is distributed; 0 for None."""
    if tensor is None or not tensor.numel():
        return 0.0
    with torch.no_grad():
        value = tensor.detach()
        if value.layout != torch.strided:
            value = value.coalesce().values() if value.layout == torch.sparse_coo else value.to_dense()
        value = numbers_of(value)
        return 0.0 if value is None else float(value.abs().sum(dtype=torch.float64))


def measured(torch: Any, tensor: Any) -> list[float]:
    """What stands for a gradient in a trace: the sum of absolute values; then, of at most ``SAMPLED`` of its elements,
    the sums under four fixed patterns of signs, and the norm. Two tensors of one size, of which the one is the
    other turned round, have the same first sum; those under the signs lie as far apart as the tensors do (Johnson and
    Lindenstrauss, 1984).
    """
    total = absolute_sum(torch, tensor)
    if tensor is None or not tensor.numel() or not has_memory(tensor):
        return [total]
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        flat = flat[:: -(-flat.numel() // SAMPLED)]
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)
        flat = flat.to("cpu", torch.float64)
        turned = _signs(torch)[:, : flat.numel()] @ flat
        return [total, *turned.tolist(), float(flat.norm())]


def measured_each(torch: Any, optimizer: Any, known: dict[int, tuple[str, Any]]) -> dict[str, Any]:
    """The gradients that an optimizer's parameters have now, measured, by the key of each that is ``known`` by id."""
    held = [p for p in parameters_of(optimizer) if id(p) in known and p.grad is not None]
    return {known[id(p)][0]: measured(torch, p.grad) for p in held}


@cache
def _signs(torch: Any) -> Any:
    """Patterns of signs, the same in every run and without a random number: the parity of bits of a product."""
    number = torch.arange(1, 2 * SAMPLED + 1, dtype=torch.int64)
    rows = [((number * prime) >> 7) ^ ((number * prime) >> 13) for prime in _PRIMES]
    return torch.stack([(row & 1) * 2 - 1 for row in rows]).to(torch.float64)


def gradients_now(torch: Any, leaves: Iterable[tuple[str, Any]]) -> dict[str, tuple[Any, Any, float]]:
    """Each leaf by its key, with a copy of its gradient, as far as that can be had, and the sum of it."""
    size = 0
    found: dict[str, tuple[Any, Any, float]] = {}
    for key, p in leaves:
        size += p.numel() if p.grad is not None else 0
        kept = p.grad is not None and numbers_of(p.grad) is not None and size <= MOST_CLONED
        found[key] = (p, p.grad.clone() if kept else None, absolute_sum(torch, p.grad))
    return found


def gained_since(torch: Any, p: Any, old: Any, old_sum: float) -> list[float]:
    """What stands for the gradient that a leaf has got since ``gradients_now`` (see ``measured``); where no copy was
    kept of what it had, only how much larger the sum is."""
    if p.grad is None:
        return [0.0]
    gain = measured(torch, p.grad - old if old is not None and old.shape == p.grad.shape else p.grad)
    return [abs(gain[0] - old_sum)] if old is None and old_sum else gain


class Walked:
    """Stands for the calls from one line in the nodes that they have walked; ``call`` is the last of them."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.place = place
        self.call = -1


def graph_behind(roots: list[Any], walked: Walked) -> tuple[int, list[Any], list[Any], set[Walked], dict[int, int]]:
    """How many nodes lie behind these (at most ``WALK_LIMIT``), the leaf tensors among them, those of the leaves
    that lie behind a node which bears ``walked`` already, what the nodes bore, and by the id of each leaf the number of
    the oldest node that has read its values; now all of them bear ``walked``.
    A number would not do for a mark: each thread's nodes begin at 0.
    """
    nodes = list(islice(nodes_behind(roots), WALK_LIMIT))
    leaves: list[Any] = []
    oldest: dict[Any, int] = {}
    views: list[Any] = []
    again: dict[int, Any] = {}
    borne: set[Walked] = set()
    for node, following in nodes:
        if not following:
            leaves += [variable] if (variable := getattr(node, "variable", None)) is not None else []
            continue
        children = [n for n, _ in following if n is not None]
        if node.name() in VIEWS:
            views.append(node)
        else:
            _taken(oldest, children, node._sequence_nr())
        marks = node.metadata.setdefault(_WALKED, set())
        borne |= marks
        if walked in marks:
            for variable in (getattr(n, "variable", None) for n in children if not n.next_functions):
                if variable is not None:
                    again[id(variable)] = variable
        marks.add(walked)
    for view in sorted(views, key=lambda n: int(n._sequence_nr()), reverse=True):
        if view in oldest:  # what reads the view reads what the tensor holds by then
            _taken(oldest, [n for n, _ in view.next_functions if n is not None], oldest[view])
    read = {id(v): number for n, number in oldest.items() if (v := getattr(n, "variable", None)) is not None}
    return len(nodes), leaves, list(again.values()), borne, read


def _taken(oldest: dict[Any, int], nodes: list[Any], number: int) -> None:
    for node in nodes:
        oldest[node] = min(oldest.get(node, number), number)


# The file of a trace: one JSON object a line, written as it happens; each process has its own.


class TraceFile:
    """``trouble`` is told of what could not be written; the program goes on."""

    def __init__(self, folder: str, trouble: Callable[[BaseException], None]) -> None:
        self._folder, self._trouble = folder, trouble
        self._pid = -1
        self._stream: Any = None

    def write(self, record: dict[str, Any]) -> None:
        try:
            if self._pid != os.getpid():
                # A forked process writes a file of its own.
                self._pid = os.getpid()
                path = os.path.join(self._folder, f"trace-{self._pid}.jsonl")
                self._stream = open(path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
                self._stream.write(json.dumps({"k": "start", "rank": int(os.environ.get("RANK", "-1"))}) + "\n")
            self._stream.write(json.dumps(record) + "\n")
            self._stream.flush()
        except Exception as e:
            self._trouble(e)


class StepCount:
    """The steps of a run that looks closer, and nothing else of a trace: whoever waits for it sees how far it is."""

    def __init__(self, witness: Witness) -> None:
        self._steps = 0
        self._write = TraceFile(witness.out, witness.trouble).write

    def stepped(self, index: int, optimizer: int) -> None:
        """An optimizer has made a step, which is the event of the journal with this index."""
        self._steps += 1
        if self._steps <= MOST_STEPS:
            self._write({"k": "step", "n": self._steps - 1, "e": index, "o": optimizer})
        elif self._steps % 100 == 0:
            self._write({"k": "count", "steps": self._steps, "calls": 0, "e": index})


# The trace of a trial run: which backward gave which parameter a gradient, and what each optimizer step used. Two
# runs of a program, before and after a change, are compared by their traces alone. A few sums stand for tensors;
# nothing else of their values is kept. One JSON object a line, written as it happens, so that a run that is stopped
# has left everything up to there.

MOST_STEPS = 400
MOST_CALLS = 2000
"""Optimizer steps and backward calls that are recorded one by one; later ones are only counted."""
FIRST_CALLS = 12
"""Calls from one place whose gradients are measured, besides those around the point of the failure."""
AROUND = (40, 60)
"""Journal events before and after that point within which every call is measured."""
MOST_PARAMETERS = 5000


class StepTrace:
    """Records one process. ``failing`` is the journal index of the call that failed in the original, -1 if unknown;
    ``point`` the index at which that run failed, whatever failed.

    A ``reference`` run is the unpatched program made to go on: every backward keeps its graph, and a tensor that is
    written while it is still needed is copied first, so each gradient is that of the values the forward pass saw. With
    ``views`` it also writes into several views of one call, which is refused otherwise.
    """

    first_calls = FIRST_CALLS

    def __init__(
        self, witness: Witness, failing: int, reference: bool, views: bool = False, point: int | None = None
    ) -> None:
        self.witness = witness
        self.torch = witness.torch
        self.failing = failing
        self.point = failing if point is None else point
        self.ending = Ending(witness.out, self.point)
        self.reference = reference
        self.views = views
        self.started = time.monotonic()
        self.calls = 0
        self.steps = 0
        self.depth = 0
        self.optimizers: dict[int, tuple[int, Any]] = {}
        self.parameters: dict[int, tuple[str, Any]] = {}
        self.slots: dict[int, int] = {}
        self.shared: set[tuple[int, str]] = set()
        self.occurrences: dict[tuple[str, int], int] = {}
        self.walked: dict[tuple[str, int], Walked] = {}
        self.stepped: dict[int, int] = {}
        self.versions: dict[int, tuple[int, int]] = {}  # of a parameter within a step: its version, when it was seen
        self.written: dict[int, int] = {}  # up to which node its values were others than now
        self.within: Any = None  # the optimizer that runs a closure within its step
        self.given: dict[str, Any] = {}  # what it was given there: it may let go of it before the end
        self.named = 0
        self.thread = 0  # which steps, as far as one thread does
        self.threads: set[int] = set()  # all that the program has had: each counts its nodes by itself
        self.write = TraceFile(witness.out, witness.trouble).write

    @classmethod
    def start(cls, witness: Witness, detail: str) -> StepTrace:
        """From the mode ``verify[:reference[:views][:straight]][:FAILING[:POINT]]``, both of them journal indices."""
        words = detail.split(":")
        numbers = [int(w) for w in words if w.lstrip("-").isdigit()]
        failing = numbers[0] if numbers else -1
        trace = cls(witness, failing, "reference" in words, "views" in words, numbers[1] if numbers[1:] else None)
        if "straight" in words:
            from torch.utils import checkpoint

            run_straight(checkpoint)
        trace._install()
        return trace

    def fill(self, evidence: Any, _autopsy: Any, _roots: list[Any], _outputs: list[Any]) -> None:
        """A failure in this run: told in the trace as well, for its place in the order of things."""
        raised = evidence.raised
        if raised is not None:
            self.write({"k": "failed", "type": raised.type, "message": raised.message[:500], "n": self.calls - 1})

    # -- installing ----------------------------------------------------------------------------------------------

    def _install(self) -> None:
        torch = self.torch
        seed(torch)
        from torch.optim import optimizer

        stand_before_engine(torch, self._run)
        init = optimizer.Optimizer.__init__

        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            init(this, *args, **kwargs)
            self._guard(self._made, this)

        setattr(optimizer.Optimizer, "__init__", made)  # noqa: B010 (a plain assignment is no valid type)
        # What a step uses that is given a closure (L-BFGS) is computed within it: that is looked at when it ends.
        optimizer.register_optimizer_step_pre_hook(lambda *step: self._guard(self._at_step, False, *step))
        optimizer.register_optimizer_step_post_hook(lambda *step: self._guard(self._at_step, True, *step))
        shown = warnings.showwarning

        def showwarning(message: Any, *args: Any, **kwargs: Any) -> None:
            self.write({"k": "warning", "text": str(message)[:500]})
            shown(message, *args, **kwargs)

        warnings.showwarning = showwarning
        in_each_thread(self.witness, self._entered)
        if self.reference:
            in_each_thread(self.witness, Copying(torch.autograd.graph).enter)
        if self.views:
            in_each_thread(self.witness, SingleViews)
        atexit.register(self._end)

    def _guard(self, function: Any, *args: Any) -> Any:
        try:
            with self.witness.quiet(), self.torch.no_grad():
                return function(*args)
        except Exception as e:
            self.witness.trouble(e)
            return None

    # -- what happens --------------------------------------------------------------------------------------------

    def _made(self, optimizer: Any) -> None:
        if id(optimizer) in self.optimizers or len(self.optimizers) >= 200:
            return
        number = len(self.optimizers)
        self.optimizers[id(optimizer)] = (number, optimizer)
        record = {"k": "optimizer", "o": number, "type": type(optimizer).__name__, "place": self._place()}
        self.write({**record, "draws": draws(self.torch)})
        self._register(optimizer, number)

    def _register(self, optimizer: Any, number: int) -> None:
        also: set[tuple[int, str]] = set()
        for p in parameters_of(optimizer):
            known = self.parameters.get(id(p))
            if known is not None:
                # Its key names the optimizer that held it first.
                if not known[0].startswith(f"{number}."):
                    also.add((number, known[0]))
            elif len(self.parameters) < MOST_PARAMETERS:
                slot = self.slots[number] = self.slots.get(number, -1) + 1
                self.parameters[id(p)] = (f"{number}.{slot}", p)
        if also := also - self.shared:
            self.shared |= also
            self.write({"k": "holds", "o": number, "keys": sorted(key for _, key in also)})

    def _run(self, engine: Any, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.reference and len(args) > 1:
            args = (args[0], True, *args[2:])
        record, before = self._guard(self._before, outputs, kwargs) or ({}, None)
        self.depth += 1
        try:
            result = engine(outputs, *args, **kwargs)
        finally:
            self.depth -= 1
        self._guard(self._after, record, before, result)
        return result

    def _before(self, outputs: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        index = self.witness.journal.count
        self._look_at_writes()
        if not self.calls:
            self.write({"k": "rank", "rank": self._group()[0]})
        place = self._place()
        occurrence = self.occurrences.get(place, 0)
        self.occurrences[place] = occurrence + 1
        kind = "backward" if kwargs.get("accumulate_grad", True) else "grad"
        record: dict[str, Any] = {"k": kind, "n": self.calls, "e": index, "place": place}
        if self.depth:
            record["inner"] = True
        if not self.calls:
            record["draws"] = draws(self.torch)
        self.calls += 1
        near = self.failing >= 0 and self.failing - AROUND[0] <= index <= self.failing + AROUND[1]
        if near:
            record["drawn"] = draws(self.torch)
        if occurrence >= self.first_calls and not near:
            return record, None
        roots = [getattr(t, "node", None) or grad_fn_of(t) for t in outputs]
        walked = self.walked.setdefault(place, Walked(place))
        record["nodes"], leaves, again, borne, read = graph_behind(roots, walked)
        record["shares"] = sorted(w.place for w in borne)[:20]
        # What an earlier call from this line has walked too, and what was stepped since: gradients of older values.
        since = [id(t) for t in again if self.stepped.get(id(t), -1) >= walked.call > 0]
        old = [self.parameters[i][0] for i in since if i in self.parameters]
        if old:
            record["old"] = old[:20]
        walked.call = self.calls
        known = [(self.parameters[i][0], i) for i in read if i in self.parameters]
        stale = [key for key, i in known if self._is_stale(i, read[i])]
        if stale:
            record["stale"] = stale
        if self.within is not None:
            record["within"] = self.optimizers[id(self.within)][0]
        value = sum(self._sum(t) for t in outputs if isinstance(t, self.torch.Tensor))
        if value - value == 0 or not self.witness.scaler.used:
            record["value"] = value  # a loss that a GradScaler has multiplied may overflow, and its gradients need not
        self._name_new()
        if kind == "grad":
            return record, {}
        loose = [(str(n), t) for n, t in enumerate(leaves) if id(t) not in self.parameters][:500]
        return record, {
            "owned": gradients_now(self.torch, self.parameters.values()),
            "loose": gradients_now(self.torch, loose),
        }

    def _after(self, record: dict[str, Any], before: Any, result: Any) -> None:
        if before and "owned" in before:
            owned = [(key, gained_since(self.torch, *one), not one[2]) for key, one in before["owned"].items()]
            record["gained"] = [[key, gain, fresh] for key, gain, fresh in owned if gain[0]]
            loose = [gain for one in before["loose"].values() if (gain := gained_since(self.torch, *one)[0])]
            record["loose"], record["loose_sum"] = len(loose), sum(loose)
        elif before is not None and isinstance(result, tuple):
            record["sums"] = [self._sum(t) if t is not None else None for t in result[:50]]
        if record.get("n", MOST_CALLS) < MOST_CALLS:
            self.write(record)
        if self.within is not None and not self.depth:
            self.given.update(measured_each(self.torch, self.within, self.parameters))
        if not self.depth and self._group()[0] <= 0 and self.ending.is_due(record.get("e", -1)):
            self.write({"k": "count", "steps": self.steps, "calls": self.calls})
            self._guard(self.ending.tell)

    def _at_step(self, ended: bool, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        closure = any(callable(a) for a in args[1:]) or callable(kwargs.get("closure"))
        if ended == closure:
            self._stepping(optimizer)
        self.within, self.given = (optimizer if closure and not ended else None), {}
        self.versions = {}
        if self.within is not None:
            self._made(optimizer)
            self._look_at_writes()
        elif ended:
            self._note_written(p for p in parameters_of(optimizer) if p.grad is not None)

    def _look_at_writes(self) -> None:
        """Which parameters an optimizer has written since the last look, while its step calls a closure."""
        now = self.torch.autograd._get_sequence_nr()
        for p in parameters_of(self.within) if self.within is not None else ():
            version, seen = self.versions.get(id(p), (p._version, now))
            if version != p._version:
                self.stepped[id(p)] = self.calls
                self.written[id(p)] = seen
            self.versions[id(p)] = p._version, now

    def _note_written(self, parameters: Iterable[Any]) -> None:
        """A step has written these; of another thread's nothing is told."""
        if self.thread in (0, get_ident()):
            self.thread = get_ident()
            self.written.update((id(p), self.torch.autograd._get_sequence_nr()) for p in parameters)

    def _entered(self) -> AbstractContextManager[None]:
        self.threads.add(get_ident())
        return nullcontext()

    def _is_stale(self, parameter: int, first: int) -> bool:
        """Whether the oldest node that has read a parameter did so before it was written; where the program has other
        threads, whose nodes have numbers of their own, that is not known."""
        return len(self.threads) <= 1 and first < self.written.get(parameter, 0)

    def _stepping(self, optimizer: Any) -> None:
        self._made(optimizer)
        number, _ = self.optimizers.get(id(optimizer), (-1, None))
        self.steps += 1
        if number < 0 or self.steps > MOST_STEPS:
            if self.steps % 100 == 0:
                index = self.witness.journal.count
                self.write({"k": "count", "steps": self.steps, "calls": self.calls, "e": index})
            return
        self._register(optimizer, number)
        mine = parameters_of(optimizer)
        self.stepped.update((id(p), self.calls) for p in mine if p.grad is not None)
        each = {**self.given, **measured_each(self.torch, optimizer, self.parameters)}
        record = {
            "k": "step",
            "n": self.steps - 1,
            "e": self.witness.journal.count,
            "o": number,
            "place": self._place(),
            "p": sum(self._sum(p) for p in mine),
            "g": sum(one[0] for one in each.values()),
            "each": each,
            "t": round(time.monotonic() - self.started, 3),
        }
        overflow = getattr(optimizer, "found_inf", None)  # a GradScaler lets fused optimizers leave the step out
        if isinstance(overflow, self.torch.Tensor) and bool(overflow.any()):
            record["left_out"] = True
        self.write(record)

    def _group(self) -> tuple[int, int]:
        """The number of this rank, and of all. Ranks that were spawned have no variable that tells it; their process
        group does."""
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return int(os.environ.get("RANK", "-1")), 1

    def _name_new(self) -> None:
        """Names of parameters that have come to the optimizers."""
        for number, optimizer in self.optimizers.values():
            self._register(optimizer, number)
        if len(self.parameters) > self.named:
            self.named = len(self.parameters)
            self._write_names()

    def _write_names(self) -> None:
        census = Census(roots_of(user_frames(sys._getframe(1))), self.torch)
        found = census.parameter_names
        called = {n: name for n, o in self.optimizers.values() if (name := census.optimizer_name(id(o)))}
        named = {k: found[i] for i, (k, _) in self.parameters.items() if i in found}
        frozen = [k for k, p in self.parameters.values() if not p.requires_grad]
        self.write({"k": "names", "names": named, "frozen": frozen, "called": called})

    def _end(self) -> None:
        self.write({"k": "end", "steps": self.steps, "calls": self.calls})

    # -- small things --------------------------------------------------------------------------------------------

    def _sum(self, tensor: Any) -> float:
        return absolute_sum(self.torch, tensor)

    def _place(self) -> tuple[str, int]:
        frame = users_frame(sys._getframe(1))
        if frame is None:
            return "", 0
        return shown_file(frame.f_code.co_filename, self.witness.cwd), frame.f_lineno
