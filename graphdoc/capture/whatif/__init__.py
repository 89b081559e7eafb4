"""What-if runs: at a few steps the program is forked, something is moved in the fork, and the loss tells what it does.

A gradient is a claim that can be measured. In a run of graphdoc's own, from the end of one step of an optimizer to the
beginning of its next, what the backward calls gave to its parameters is set beside what their losses do when these
parameters move (docs/gradients.md has the words). The program itself waits and then goes on untouched.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.moved import print_of
from graphdoc.capture.events.cut_records import Record, frames_of_place
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.summands import sums_without_graph
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.process.hooks import stand_before_engine
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.number_facts import has_memory
from graphdoc.capture.trials.reference import note_checkpoints
from graphdoc.capture.whatif.answers import Answers
from graphdoc.capture.whatif.cut_places import CutLook, Dying
from graphdoc.capture.whatif.forking import IN_CHILD, Forking
from graphdoc.capture.whatif.measure import Plan
from graphdoc.capture.whatif.questions import ask
from graphdoc.capture.whatif.window import Move, Target, Window
from graphdoc.evidence import Frame

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

AT = (2, 4)
"""Steps of an optimizer behind which it is looked at: what is measured is the following one."""
LATER, LAST = 3, 10
"""What was met at one step only is looked for again, so many steps later each time, up to this one."""
BEHIND = 2
"""In a trial: so many steps behind those that were made before the failure, besides the first one."""
SECONDS = 40.0
"""That all forks of a run may take together."""
LIMIT = (4.0, 15.0)
"""Seconds that one fork has at least, and how many times as long as the program's own step it may take."""
MOST_OPTIMIZERS = 8
ENOUGH_STEPS = 36
"""Steps of an optimizer behind the last that is looked at, after which the others are not waited for."""


class WhatIf:
    """One process. ``at``: the steps behind which each optimizer is looked at. In a ``trial`` it is the patched program
    that is looked at, also within a step that calls a closure again and again."""

    def __init__(self, witness: Witness, at: tuple[int, ...] = AT, trial: bool = False) -> None:
        self.witness = witness
        self.torch = witness.torch
        self.at = at
        self.trial = trial
        self.patched = PatchedLines(self)
        self.forking = Forking(witness)
        self.look = CutLook(witness)
        self.answers = Answers(self)
        self._window: Window | None = None
        """In a fork alone."""
        self._depth = 0
        self.steps: dict[int, int] = {}
        self._started: dict[int, float] = {}
        self._optimizers: dict[int, Any] = {}
        self.before: dict[int, list[int]] = {}
        """By optimizer: what its parameters held before the step behind which it is looked at (``print_of``)."""
        self._over = False
        self.awaited: set[int] = set()
        """Numbers of optimizers that an earlier run has asked about: one may be made after others have trained."""
        self.hooked = False
        """The program has hung a hook of its own on a tensor, which may give another gradient on purpose."""
        self.checkpoints = False
        """The program has run something in a checkpoint."""
        self.adds = False
        """A loss was a sum with a term that has no graph."""
        self._ends: tuple[Target, Dying] | None = None
        """Where no fork can be made: the gradient of these parameters is followed in the run itself."""
        self._closing: Any = None
        """The optimizer within whose step a closure is to be looked at."""

    @classmethod
    def start(cls, witness: Witness, detail: str) -> WhatIf:
        """From ``probe:whatif[:all][:OPTIMIZER...]``, the numbers of optimizers that are waited for, or
        ``probe:whatif:trial:STEPS``, of the patched program: how many steps the original's optimizers had made before
        it failed, at most."""
        words = detail.split(":")
        if words[0] != "trial":
            probe = cls(witness)
            probe.awaited = {int(w) for w in words if w.isdecimal()}
        else:
            witness.torch.set_num_threads(1)
            probe = cls(witness, (1, int(words[1]) + BEHIND), trial=True)
        probe._install()
        return probe

    def fill(self, evidence: Any, _autopsy: Any, _roots: list[Any], _outputs: list[Any]) -> None:
        """A failure, or what is told as one: nothing is added to it."""

    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.answers.signs())

    def tell(self, evidence: Any) -> None:
        """Add what was measured."""
        program = self.witness.audit.program if self.witness.audit is not None else evidence
        if not evidence.parameters:
            evidence.optimizers, evidence.parameters = program.optimizers, program.parameters
        if not evidence.events:
            evidence.events = program.events
        evidence.signs += [s for s in self.answers.signs() if s not in evidence.signs]

    # -- installing ----------------------------------------------------------------------------------------------

    def _install(self) -> None:
        from torch.optim import optimizer
        from torch.utils import checkpoint

        stand_before_engine(self.torch, self._run)
        hook = self.torch.Tensor.register_hook

        def register_hook(tensor: Any, function: Any) -> Any:
            self.hooked = True
            return hook(tensor, function)

        self.torch.Tensor.register_hook = register_hook
        note_checkpoints(checkpoint, lambda _: setattr(self, "checkpoints", True))
        optimizer.register_optimizer_step_pre_hook(lambda *step: self._guard(self._stepping, *step))
        optimizer.register_optimizer_step_post_hook(lambda *step: self._guard(self._stepped, *step))
        self.look.begun()
        self.look.on = True
        self.witness.audits.append(self)

    def _guard(self, function: Any, *args: Any) -> None:
        try:
            function(*args)
        except Exception as e:
            if self._window is not None:
                self.forking.tell(f"{type(e).__name__}: {e}")
            self.witness.trouble(e)

    def _run(self, engine: Any, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        window = self._window if not self._depth else None
        if window is not None:
            self._guard(self._quietly, window.began, outputs, args, kwargs)
        elif not self._depth and not self.adds and not self._over:
            self._guard(self._quietly, lambda: setattr(self, "adds", bool(sums_without_graph(tensor_roots(outputs)))))
        if window is None and self._ends is not None and not self._depth:
            self._guard(self._quietly, self._ends[1].began, outputs)
        self._depth += 1
        try:
            result = engine(outputs, *args, **kwargs)
        finally:
            self._depth -= 1
        if window is not None:
            self._guard(self._quietly, window.ended, result)
        elif self._closing is not None and not self._depth and self._window is None:
            optimizer, self._closing = self._closing, None
            self._guard(self._look, optimizer, self.steps.get(id(optimizer), 0), 0.0, True)
        return result

    def _quietly(self, function: Any, *args: Any) -> None:
        self._depth += 1  # what a watch differentiates itself is no call of the program's
        try:
            with self.witness.modes.left(), self.witness.quiet(), self.torch.no_grad():
                function(*args)
        finally:
            self._depth -= 1

    # -- steps ---------------------------------------------------------------------------------------------------

    def _stepping(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.look.on = False  # what an optimizer does to parameters is no operation of the program's
        closure = any(callable(a) for a in args[1:]) or callable(kwargs.get("closure"))
        if self._ends is not None and self._ends[0].optimizer is optimizer:
            self._quietly(self._follow_no_more)
        if self._window is None:
            soon = self.steps.get(id(optimizer), 0) + 1 in self.at
            self._closing = optimizer if self.trial and closure and soon and not self._over else None
            if soon and not self._over and not self.trial:
                self.before[id(optimizer)] = [print_of(p) for p in parameters_of(optimizer) if _is_measured(p)]
        else:
            self._quietly(self._window.stepping, optimizer, closure)

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._window is not None:
            self._quietly(self._window.stepped, optimizer)
            return
        self._closing = None
        if self._over:
            return
        self._optimizers.setdefault(id(optimizer), optimizer)
        steps = self.steps[id(optimizer)] = self.steps.get(id(optimizer), 0) + 1
        took = time.monotonic() - self._started.get(id(optimizer), time.monotonic())
        if steps in self.at:
            self._look(optimizer, steps, took)
        if self._window is None:
            self._started[id(optimizer)] = time.monotonic()
            self.look.on = not self._over and any(n < self.at[-1] for n in self.steps.values())
            self._end_if_done()

    def _look(self, optimizer: Any, steps: int, took: float, within: bool = False) -> None:
        """``within``: from one call of its closure to the next."""
        why = self.forking.why_not()
        if not why and (len(self._optimizers) > MOST_OPTIMIZERS or self.forking.seconds > SECONDS):
            why = "the forks have used up their time"
        if why:
            self.answers.refused(why)
            self._end(self.trial)
            if not self.trial:
                self._follow(optimizer)
            return
        parameters = [p for p in parameters_of(optimizer) if _is_measured(p)]
        others = [o for o in self._optimizers.values() if o is not optimizer]
        if not parameters or not Target.fits(parameters, others):
            unread = "what its parameters are given cannot be read off them behind a backward call"
            self.answers.refused("its parameters are too many to be copied a few times" if parameters else unread)
            return
        number = self.witness.journal.optimizer(optimizer).id
        target = Target(self.torch, optimizer, number, parameters, others, within)
        if self.witness.audit is not None:
            with self.witness.modes.left(), self.witness.quiet():
                self.witness.audit.snapshot()
        before = self.forking.forks, self.forking.seconds
        self._measure(target, ask(self, target, steps), max(LIMIT[0], LIMIT[1] * took))
        if self._window is None:
            forks, seconds = self.forking.forks - before[0], self.forking.seconds - before[1]
            self.answers.cost(number, forks, seconds, took)

    def _follow(self, optimizer: Any) -> None:
        """Nothing can be moved in a fork: see at least where the gradient ends of what has never been given any."""
        had = self.witness.journal.with_grad
        parameters = [p for p in parameters_of(optimizer) if _is_measured(p) and not had.get(id(p))]
        if parameters and Target.fits(parameters, []):
            target = Target(self.torch, optimizer, self.witness.journal.optimizer(optimizer).id, parameters, [])
            self._ends = target, Dying(target, set(range(len(parameters))))
            self._ends[1].cwd = self.witness.cwd

    def _follow_no_more(self) -> None:
        assert self._ends is not None
        (target, dying), self._ends = self._ends, None
        told = dying.told()
        dying.forget()
        if self.witness.audit is not None:
            self.witness.audit.snapshot()
        missing = {i for i in told["reached"] if target.parameters[i].grad is None}
        self.answers.ended(target, {"answers": []}, missing, set(), told)

    def _measure(self, target: Target, plan: Plan, limit: float) -> None:
        """Make the forks that are asked for, one after the other. In each of them this returns to the program."""
        try:
            move: Move = next(plan)
            while True:
                told = self.forking.run(limit)
                if told is IN_CHILD:
                    self._plan = plan  # an end of it is not for the fork
                    self._become(target, move)
                    return
                move = plan.send(told if self.forking.seconds < SECONDS else "the forks have used up their time")
        except StopIteration:
            pass

    def _become(self, target: Target, move: Move) -> None:
        """In a fork: be the window, and look at nothing else."""
        self._window = Window(self.forking, target, move)
        witness = self.witness
        if witness.audit is not None and witness.audit.losses.watch is not None:
            witness.audit.losses.watch.over = True
        witness.audit = None
        self.look.on = False
        atexit.register(self._ended)
        self._quietly(self._window.begin)

    def _ended(self) -> None:
        """In a fork: the program has ended, or failed, where it would not have."""
        error = getattr(sys, "last_value", None)
        how = f"failed ({type(error).__name__}: {error})" if error is not None else "ended"
        self.forking.tell(f"the program {how} before the step")

    def _end_if_done(self) -> None:
        done = [i for i, n in self.steps.items() if n >= self.at[-1]]
        waits = len(done) < len(self.steps) and max(self.steps.values()) < self.at[-1] + ENOUGH_STEPS
        waits = waits or not self.awaited <= {self.witness.journal.optimizer(self._optimizers[i]).id for i in done}
        if done and not waits and self.answers.undecided and self.at[-1] + LATER <= LAST and not self.trial:
            self.at = (*self.at, self.at[-1] + LATER)
        else:
            self._end(bool(done) and not waits)

    def _end(self, done: bool) -> None:
        if self._over or not done:
            return
        self._over = True
        self.look.on = False
        self.answers.complete = True
        if self.witness.audit is not None:
            self.witness.audit.losses.settled = True
            self.witness.audit.tell_early()

    def frames(self, raw: Any) -> Any:
        """A stack as frames of evidence."""
        return frames_of(raw, self.witness.cwd)


def _is_measured(parameter: Any) -> bool:
    """Whether what a backward call gives it can be read off ``.grad`` behind the call: a hook may take it away."""
    hooked = getattr(parameter, "_post_accumulate_grad_hooks", None)
    return parameter.requires_grad and parameter.is_floating_point() and has_memory(parameter) and not hooked


# Which cuts of a patched program are the patch's own: those on lines, and in words, that the file does not have.

_CUTS = ("detach", "no_grad", "inference_mode", "set_grad_enabled")
"""Words of which one may stand for another: what an author cuts off in one way, a patch may in another."""


class PatchedLines:
    """Empty where the program runs as it is on disk. A line that was only moved or indented is the program's."""

    def __init__(self, probe: WhatIf) -> None:
        self._probe = probe
        self._texts: dict[str, tuple[str, str]] = {}
        self._lines: dict[str, set[int]] = {}
        for path, old, new in _patches(probe.witness.out):
            known = Counter(line.strip() for line in old.splitlines())
            known.subtract(line.strip() for line in new.splitlines())
            lines = {number for number, line in enumerate(new.splitlines(), 1) if known[line.strip()] < 0}
            self._texts[path], self._lines[path] = (old, new), lines

    def places(self, found: dict[Any, Any]) -> list[Any]:
        """Of these places those at which the patch takes something out of the graph."""
        return [place for place, records in found.items() if self._lines and self._is_own(records[0])]

    def has(self, frames: list[Frame], word: str = "") -> bool:
        """Whether the user's innermost line is the patch's, which has such a word in more places than the file has."""
        own = next((f for f in reversed(frames) if f.user), None)
        path = os.path.realpath(os.path.join(self._probe.witness.cwd, own.file)) if own is not None else ""
        if own is None or max(own.line, own.end_line) not in self._lines.get(path, ()):
            return False
        old, new = self._texts[path]
        alike = _CUTS if word in _CUTS else (word,)
        return not word or sum(new.count(w) - old.count(w) for w in alike) > 0

    def _is_own(self, record: Record) -> bool:
        if not record.recording and record.switch is not None:
            return self.has(frames_of_place(record.switch, self._probe.witness.cwd), record.switch[0])
        return self.has(self._probe.frames(record.raw), record.op.strip("_"))


def _patches(out: str) -> Any:
    """The patched files: path, the text on disk, the text that runs."""
    try:
        with open(os.path.join(out, "patches.json"), encoding="utf-8") as file:
            patches = json.load(file)
        for path, text in patches.items():
            with open(path, encoding="utf-8", errors="replace") as file:
                yield os.path.realpath(path), file.read(), text
    except (OSError, ValueError):
        return
