"""Where the first value that is not finite came from: the probe of a second run, and what it keeps as plain data."""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from graphdoc.capture.events.finite import KIND
from graphdoc.capture.events.journal import leaves_behind
from graphdoc.capture.graph.walk import DEEP, inputs_of, nodes_behind, reached
from graphdoc.capture.places.code_places import is_user_file
from graphdoc.capture.places.frames import library_frames, user_stack
from graphdoc.capture.places.stacks import kept_in, stack_here
from graphdoc.capture.process.in_threads import in_each_thread
from graphdoc.capture.process.quiet import Unseen
from graphdoc.capture.second_run.births import CHOOSING, MOST_BIRTHS, Births, Record, watch_loading
from graphdoc.capture.tensors.access_paths import roots_of
from graphdoc.capture.tensors.facts import grad_fn_of, inside_of_func, parameters_of, user_frames
from graphdoc.capture.tensors.names import Census
from graphdoc.capture.tensors.number_facts import is_finite, numbers_of
from graphdoc.capture.written_evidence import start_document, write_document
from graphdoc.evidence import Evidence, Sign
from graphdoc.growth import took_off, usual_size

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


def _in_engine(raw: Any) -> bool:
    """Whether the engine itself called the operation, not Python code of a backward or hook that it runs."""
    for code in raw.raw[::2]:
        if code.co_name == "_engine_run_backward":
            return True
        if is_user_file(code.co_filename):
            return False
    return True


def _leads(start: Any, record: Record) -> bool:
    """Whether a path leads from here to the node that the record is about, by no side that it was seen to spare."""
    taken = enumerate(start.next_functions)
    first = [n for side, (n, _) in taken if n is not None and (id(kept_in(start)), side) not in record.spared]
    behind = islice(reached(first, inputs_of), 400)
    return any(str(n.name()) == record.node and n.metadata.get("traceback_") is record.made for n in behind)


def grown(all_norms: dict[int, list[tuple[int, float]]], names: dict[int, str]) -> list[tuple[int, dict[str, Any]]]:
    """The parameters (by identity) whose gradient grew most, and those that grew first: ``from`` is the backward call
    from which on the norm was far above its usual size."""
    out: list[tuple[int, dict[str, Any]]] = []
    for ident, norms in all_norms.items():
        finite = [(call, n) for call, n in norms if n == n and n not in (float("inf"), 0.0)]
        if len(finite) >= 3 and ident in names:
            usual = usual_size([n for _, n in finite])
            begun = took_off(finite)
            out.append((ident, {"name": names[ident], "factor": finite[-1][1] / usual, "from": begun}))
    most = sorted(out, key=lambda g: -float(g[1]["factor"]))[:5]
    grew = [g for g in out if g[1]["from"] is not None]
    first = min((int(g[1]["from"]) for g in grew), default=0)
    return most + [g for g in grew if g[1]["from"] == first and g not in most][:20]


# The probe of a second run that finds where the first value that is not finite came from, and how the norms grew.

KEPT_STEPS = 300
"""Steps of the history that are told: the latest."""
MOST_RECORDS = 12


class CloseLook:
    """Takes the place of ``FiniteWatch`` in a second run. ``start``: the journal's event from which to look closely;
    with ``only`` what was not finite before is none of its business; with ``every`` a run that ends well is told of the
    first operation whose result was not finite, whatever became of it."""

    def __init__(self, witness: Witness, start: int, only: bool = False, every: bool = False) -> None:
        self._witness = witness
        self._start = start
        self._only = only
        self._every = every
        self._births = Births(witness.trouble)
        self._roots: list[Any] = []
        self._leaves: dict[int, Any] = {}
        self._mark = 0
        self._since = 0
        self._calls = 0
        self._history: deque[tuple[dict[str, float], frozenset[int]]] = deque(maxlen=2 * KEPT_STEPS)
        """Each loss and what the step behind it has shown, with the leaves that the loss was computed from."""
        self._norms: dict[int, list[tuple[int, float]]] = {}
        """By parameter: backward calls so far and the norm of its gradient, at each step."""
        self._optimizers: dict[Any, int] = {}
        self._steps: dict[int, tuple[int, Any]] = {}
        """By parameter: the number of the optimizer that stepped by its gradient last, and the stack of that step."""
        self._parameters: dict[int, Any] = {}
        self._call: Any = None
        self.over = False
        self.sign: Sign | None = None

    @classmethod
    def start(cls, witness: Witness, detail: str) -> CloseLook:
        """From the mode ``probe:nonfinite[:START[:only|:all]]``."""
        start, _, only = detail.partition(":")
        look = cls(witness, int(start) if start.lstrip("-").isdigit() else 0, only == "only", only == "all")
        from torch.optim import optimizer

        witness.undoing.append(optimizer.register_optimizer_step_pre_hook(look._before_step).remove)
        witness.undoing.append(optimizer.register_optimizer_step_post_hook(look._after_step).remove)
        witness.undoing.append(watch_loading(look._births.loaded, MOST_BIRTHS, witness.trouble))
        look._births.active = look._start <= 0
        in_each_thread(witness, lambda: look._births)
        if look._only:
            witness.scaler.before_step = look._before_left_out
        witness.audits = [look]
        witness.finite = look  # type: ignore[assignment]
        return look

    # -- while the program runs ----------------------------------------------------------------------------------

    def root(self, outputs: Any, index: int) -> None:
        """A backward call begins: is what it starts from finite."""
        if self.over:
            return
        try:
            self._births.active = index >= self._start - 1
            self._roots = [grad_fn_of(t) for t in outputs if isinstance(t, torch.Tensor)]
            self._leaves = leaves_behind(self._roots) or {}
            inside = [inside_of_func(t, torch) for t in outputs]
            if any(a is not b for a, b in zip(inside, outputs, strict=True)):
                outputs, self._leaves = inside, {}  # those of a transform are others in each call
            self._call = stack_here(4)  # root < _before < the function < backward
            bad = [t for t in outputs if isinstance(t, torch.Tensor) and not is_finite(torch, t)]
            alone = len(outputs) == 1 and isinstance(outputs[0], torch.Tensor) and outputs[0].numel() == 1
            if alone and (loss := numbers_of(outputs[0])) is not None:
                self._history.append(({"call": self._calls, "loss": float(loss)}, frozenset(self._leaves)))
            self._calls += 1
            if bad and not (self._only and index < self._start):
                self._finish("loss", bad)
            else:
                self._since, self._mark = self._mark, self._births.now
        except Exception as e:
            self._witness.trouble(e)

    def stepped(self, *_: Any) -> None:
        """An optimizer has stepped: told by hooks of its own."""

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self.over:
            return
        try:
            with torch.no_grad():
                mine = [p for p in parameters_of(optimizer) if p.grad is not None]
                each = [(p, _norm(p.grad)) for p in mine if not p.grad.is_sparse]
                squares = sum(n * n for _, n in each)
                number = self._optimizers.setdefault(optimizer, len(self._optimizers))
                if self._history:
                    latest = self._history[-1][0]
                    latest["norm"] = squares**0.5
                    latest["optimizer"] = number
                    latest["weights"] = sum(_norm(p) ** 2 for p in mine) ** 0.5
                step = stack_here(2)
                for p, n in each:
                    self._steps[id(p)] = number, step
                    self._parameters[id(p)] = p
                    norms = self._norms.setdefault(id(p), [])
                    norms.append((self._calls, n))
                    del norms[: max(0, len(norms) - KEPT_STEPS)]
            self._births.stepping = True
            self._look_at_gradients(mine)
        except Exception as e:
            self._witness.trouble(e)

    def _before_left_out(self, optimizer: Any) -> None:
        """A GradScaler is about to step, or to leave the step out; the hooks of a step never hear of the latter."""
        if self.over or self._witness.journal.count <= self._start:
            return
        self._look_at_gradients([p for p in parameters_of(optimizer) if p.grad is not None])

    def _look_at_gradients(self, mine: list[Any]) -> None:
        with torch.no_grad():
            bad = [p for p in mine if not is_finite(torch, p.grad)]
        if bad:
            self._finish("gradient", [p.grad for p in bad], bad)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        self._births.stepping = False
        if self.over:
            return
        try:
            # What no step has changed, the program may leave so on purpose.
            mine = [p for p in parameters_of(optimizer) if p.grad is not None or id(p) in self._steps]
            bad = [p for p in mine if not is_finite(torch, p)]
            if bad:
                self._call = stack_here(2)
                self._finish("parameter", bad, bad)
        except Exception as e:
            self._witness.trouble(e)

    # -- what was found ------------------------------------------------------------------------------------------

    def found(self) -> bool:
        """Whether something is told already, or the run ends by an exception and was not looked at yet."""
        return self.sign is not None or (
            not self.over and bool(self._every or self._witness.frames or self._bad_leaves())
        )

    def _bad_leaves(self) -> list[Any]:
        """Leaves of the latest backward call whose gradient is not finite, used by no optimizer yet."""
        return [p for p in self._leaves.values() if p.grad is not None and not is_finite(torch, p.grad)]

    def tell(self, evidence: Evidence) -> None:
        """The run ends. Where no backward call or step has met a bad value, one may stand in the frames."""
        if self.sign is None and not self.over:
            with Unseen(torch, self._witness.anomaly, None):
                census = Census(roots_of(self._witness.frames), torch)
                values = [t for i, t in census.tensors.items() if i in census.tensor_paths and not is_finite(torch, t)]
                values.sort(key=lambda t: (t.numel() > 1, not t.requires_grad, t.numel()))
                found = [t for t in values if self._births.record_of(t) is not None] or values
                bad = self._bad_leaves()
                if bad:
                    self._close(self._tell("gradient", [p.grad for p in bad], bad, census))
                elif self._every and not self._witness.frames:
                    first = self._first()
                    if first is not None:
                        self._close(self._about([first], "value", [], [], census))
                elif found:
                    self._close(self._tell("value", found[:5], [], census))
        if self.sign is not None:
            evidence.signs.append(self.sign)

    def _first(self) -> Record | None:
        """The first operation that met a nan; where none has, that made an inf of finite numbers."""
        met = [r for r in self._births.since(0) if r.kind != "empty" and user_stack(r.raw, self._witness.cwd)]
        made = [r for r in met if r.kind == "birth"]
        return next((r for r in met if r.shows == "nan"), made[0] if made else None)

    def _close(self, look: dict[str, Any]) -> None:
        """Keep what was found; nothing is looked at any more."""
        self.over = True
        self._births.active = False
        self.sign = Sign(KIND, facts={"look": look})

    def tell_failed(self, evidence: Evidence, _: int) -> None:
        """Anomaly mode has stopped the program: the first birth of nan in this backward call is the one; where it only
        met what the forward pass had left (a nan that a mask has thrown away), the first of that pass."""
        if self.sign is not None:  # the call began with what the forward pass had made, and that is told
            evidence.signs.append(self.sign)
            return
        found = [r for r in self._births.since(self._mark) if r.shows == "nan"]
        found = found or [r for r in self._births.since(self._since) if r.shows == "nan"]
        if self.over or not found:
            return
        self._close(self._about(found[:1], "gradient", [], [], Census([], torch)))
        assert self.sign is not None
        evidence.signs.append(self.sign)

    def _finish(self, what: str, tensors: list[Any], parameters: list[Any] | None = None) -> None:
        """The first bad value: write down where it came from, for whoever waits for it."""
        self.over = True
        self._births.active = False
        witness = self._witness
        frame = sys._getframe(2)
        with Unseen(torch, witness.anomaly, frame):
            evidence = start_document(witness)
            census = Census(roots_of(user_frames(frame)), torch)
            self._close(self._tell(what, tensors, parameters or [], census))
            self.tell(evidence)
            write_document(witness, evidence)

    def _tell(self, what: str, tensors: list[Any], parameters: list[Any], census: Census) -> dict[str, Any]:
        records = {r.number: r for r in map(self._births.record_of, tensors) if r is not None}
        return self._about([records[min(records)]] if records else [], what, tensors, parameters, census)

    def _about(
        self, todo: list[Record], what: str, tensors: list[Any], parameters: list[Any], census: Census
    ) -> dict[str, Any]:
        names = census.parameter_names
        chain: list[Record] = []
        while todo and len(chain) < MOST_RECORDS:
            record = todo.pop(0)
            if record not in chain:
                chain.append(record)
                todo += record.parents
        chain.sort(key=lambda r: r.number)
        others = [r for r in self._births.since(self._since) if r not in chain]
        # What other parameters have gone through says nothing of these.
        history = [h for h, behind in self._history if not self._leaves or not behind.isdisjoint(self._leaves)]
        return {
            "what": what,
            "names": [names.get(id(p), "") for p in parameters][:40],
            "all": len(parameters),
            "holders": [h.path for t in tensors[:3] for h in census.holders(id(t), True, self._witness.cwd)[:1]],
            "call": user_stack(self._call, self._witness.cwd) if self._call is not None else [],
            "calls": self._calls,
            "chain": [self._told(r, census) for r in chain],
            "others": [self._told(r, census) for r in others[-30:]],
            "history": history[-KEPT_STEPS:],
            "grown": [
                {**one, "optimizer": optimizer, "step": user_stack(step, self._witness.cwd)}
                for ident, one in grown(self._norms, names)
                for optimizer, step in [self._steps[ident]]
            ],
        }

    def _told(self, record: Record, census: Census) -> dict[str, Any]:
        """A record as plain data, with places and the names that tensors have now."""
        facts, cwd = dict(record.facts), self._witness.cwd
        for given in (*facts.get("inputs", ()), *(v for v in facts.get("saved", {}).values() if isinstance(v, dict))):
            by = given.get("by", [])
            if not by or isinstance(by[0], tuple):
                given["by"] = [{"op": op, "stack": user_stack(raw, cwd)[-1:]} for op, raw in by]
            ident = given.get("ident", 0)
            if ident in census.parameter_names:
                given["parameter"] = census.parameter_names[ident]
            elif ident in census.tensor_paths:
                given["held"] = [h.path for h in census.holders(ident, True, cwd)[:2]]
        out = {
            "kind": record.kind,
            "op": record.func,
            "shows": record.shows,
            "node": record.node,
            "in_step": record.step,
            "number": record.number,
            **facts,
        }
        out["stack"] = user_stack(record.raw, cwd)
        for place in ("loaded", "met"):
            if place in facts:
                out[place] = user_stack(facts[place], cwd)
        out["inner"] = record.node != "" and not _in_engine(record.raw)
        raw = record.made if record.node and not out["inner"] else record.raw
        out["called"] = library_frames(raw, cwd) if raw is not None else []
        if record.node:
            out["made"] = user_stack(record.made, cwd) if record.made is not None else []
            out["chosen"] = self._chosen(record)
        return out

    def _chosen(self, record: Record) -> list[dict[str, Any]]:
        """The place of the ``where`` (or the like) that left this node's result out, nearest first.

        Known by the graph: a path of the running backward call leads from it to the node. One that was seen to take
        all of the bad elements is none of them.
        """
        behind = (node for node, _ in islice(nodes_behind(self._roots), DEEP - 1))
        found = [node for node in behind if str(node.name()) in CHOOSING and _leads(node, record)]
        found.sort(key=lambda node: int(node._sequence_nr()))
        near = [node for node in found[:2] if kept_in(node) is not None and record.made is not None]
        return [{"node": str(node.name()), "stack": user_stack(kept_in(node), self._witness.cwd)} for node in near]


def _norm(tensor: Any) -> float:
    """Of this process's part, if it can be read."""
    numbers = numbers_of(tensor)
    return 0.0 if numbers is None else float(numbers.float().norm())
