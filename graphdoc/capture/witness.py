"""The witness: everything of ours inside the user's process, from what is put in place to what is told at the end."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from graphdoc.capture import node_stacks, stacks
from graphdoc.capture.anomaly import keep_users_view
from graphdoc.capture.children import watch_children
from graphdoc.capture.engine_calls import EngineCalls
from graphdoc.capture.failures import Failures
from graphdoc.capture.finite import FiniteWatch
from graphdoc.capture.hooks import hook_in
from graphdoc.capture.ignored import watch_ignored
from graphdoc.capture.inserted_calls import CannotInsert
from graphdoc.capture.journal import Journal
from graphdoc.capture.marks import leave
from graphdoc.capture.modes import Modes
from graphdoc.capture.ours import chain_of, text_of
from graphdoc.capture.quiet import Quiet
from graphdoc.capture.saved import watch_hooks
from graphdoc.capture.shown_warnings import note_warnings
from graphdoc.capture.source_texts import remember_script
from graphdoc.capture.switches import Switches
from graphdoc.capture.trouble import note_trouble
from graphdoc.capture.watched_calls import watch_call, watch_emptying
from graphdoc.capture.written_evidence import start_document, write_document
from graphdoc.evidence import Evidence

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.nan_stop import Stopping

AT_LIMIT = "the program came close to Python's recursion limit, and what it did there was not observed"
MOST_THREADS = 50
"""Threads whose ends by an exception are looked at: the program itself goes on."""


class Witness:
    """Everything that runs inside the user's process. One per process; ``install`` makes it, exit undoes it."""

    def __init__(self, torch: Any, out: str, mode: str) -> None:
        self.torch = torch
        self.out = out
        self.mode = mode
        self.cwd = os.getcwd()
        self.pid = os.getpid()
        self.started = time.time()
        self.journal = Journal(torch.autograd._get_sequence_nr)
        self.modes = Modes(torch)
        self.finite = FiniteWatch(self)
        self.stopping: Stopping | None = None
        self.frames: list[FrameType] = []
        """Those of the user's that the exception came through which is being examined."""
        self.over = False
        self.thread_ended = False
        self.ignored: Evidence | None = None
        """What was told of an exception that Python has printed because nothing could catch it."""
        self._compiling = torch.compiler.is_compiling
        self.degraded: list[str] = []
        self.thread = self.journal.here.number
        self.began = 0
        """Autograd's sequence number of the first node that was observed."""
        self.capture = "cheap-stacks"
        self.probes: list[Any] = []
        self.audit: Audit | None = None
        self.looking = False
        """The next backward call is to be looked at, wherever it is made."""
        self.before_scaled_step: Any = None
        """Called with the optimizer that a GradScaler is about to step, or to leave out."""
        self.audits: list[Any] = [] if "nan-off" in mode.split(":") else [self.finite]
        """Each looks at a run that goes on: ``found()`` whether it has anything to tell, ``tell(evidence)`` adds it."""
        self.warnings: list[str] = []
        self.undoing: list[Any] = []
        """What puts everything back, called in reverse."""

    # -- installing ----------------------------------------------------------------------------------------------

    def install(self, told_of_end: bool = False) -> None:
        """Put everything in place. Whatever cannot be is told in ``degraded``, and the rest goes on.

        With ``told_of_end`` the caller calls ``at_exit`` when the process ends, else it is left to ``atexit``.
        """
        torch = self.torch
        remember_script()
        self._install_stacks()
        self.began = torch.autograd._get_sequence_nr()
        self.undoing.append(note_warnings(self.warnings, self.cwd))
        self.undoing.append(watch_hooks(torch))
        try:
            self.undoing.append(self.calls.watch())
        except CannotInsert as e:
            self.degraded.append(f"backward calls were not observed: {e}")
        from torch.optim import optimizer

        self.undoing.append(optimizer.register_optimizer_step_post_hook(self._after_step).remove)
        zero_grad = getattr(optimizer.Optimizer.zero_grad, "__wrapped__", optimizer.Optimizer.zero_grad)
        self.switches = Switches(torch)
        self.undoing += self.switches.undo
        watch_call(self, zero_grad, "zero_grad")
        watch_call(self, torch.nn.Module.load_state_dict, "load_state_dict")
        watch_emptying(self, torch.nn.Module.zero_grad)
        if not told_of_end:
            atexit.register(self.at_exit)
        self._watch_threads()
        self.undoing.append(watch_ignored(self))
        watch_children(self)

    def _install_stacks(self) -> None:
        torch = self.torch
        self.undoing.append(stacks.stand_in(torch))
        self.anomaly = keep_users_view(torch)
        self.undoing.append(self.anomaly.undo)
        self.calls = EngineCalls(self)
        self.failures = Failures(self, self.calls)
        stacks.printed.append(self.calls.printed)
        self.capture = self._recording()
        hook = getattr(torch.autograd.graph, "node_creation_hook", None)
        if self.capture != "cheap-stacks" and hook is not None:
            # The official way of PyTorch 2.14 and later is second choice: it belongs to one thread, and it makes a
            # Python object for every node, each of which is freed inside the one that leads to it (see walk.DEEP).
            self.anomaly.switch_off()
            context = hook(node_stacks.keep_in)
            context.__enter__()
            self.undoing.append(lambda: context.__exit__(None, None, None))
            self.capture = "node-hook" if self._recording() == "cheap-stacks" else "none"

    def _recording(self) -> str:
        """What a node that is made now keeps: our stack, anomaly mode's own text, or nothing."""
        with self.torch.enable_grad():
            node = self.torch.zeros(1, requires_grad=True).exp().grad_fn
        kept = node.metadata.get("traceback_")
        return "cheap-stacks" if isinstance(kept, stacks.Stack) else "anomaly" if kept else "none"

    def _watch_threads(self) -> None:
        """Python tells of an exception that ends a thread by ``threading.excepthook`` (Python 3.8 and later)."""
        told = threading.excepthook

        ended = itertools.count()

        def hook(args: Any) -> None:
            try:
                if args.exc_value is not None and next(ended) < MOST_THREADS and self._finish(args.exc_value):
                    self.thread_ended = True
            except Exception as e:
                self.trouble(e)
            finally:
                told(args)

        self.undoing.append(hook_in(threading, "excepthook", hook))

    # -- optimizers ----------------------------------------------------------------------------------------------

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._compiling():
            return  # torch.compile reads this function instead of running it
        try:
            with self.modes.left():
                journal = self.journal
                seen = journal.stepped(optimizer)
                journal.add("step", journal.look["step"](2), seen.id)
                if self.audit is not None:
                    self.audit.stepped(optimizer, seen)
        except Exception as e:
            self.trouble(e)

    # -- the end -------------------------------------------------------------------------------------------------

    def at_exit(self) -> None:
        """Python runs what was registered for its end."""
        if os.getpid() == self.pid and not self.over:
            # Python has set these if an exception ended the program.
            error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
            self.finish(error if isinstance(error, BaseException) else None)

    def finish(self, error: BaseException | None) -> None:
        """The process ends, by this exception if there is one: join it with what was examined, and undo everything."""
        try:
            self._finish(error)
        except Exception as e:
            self.trouble(e)
        self.undo()
        leave(self.out, "ended")

    def ignore(self, error: Exception, where: str) -> None:
        """Python is about to print this exception and to go on: it came out of ``where``, and nothing can catch it."""
        seen = self.failures.is_told(error)
        if not seen and (self.failures.evidence is not None or not isinstance(error, RuntimeError)):
            return
        line = f"nothing could catch this exception: Python printed it and left {where}"
        self.degraded.append(line)
        self._finish(error)
        self.ignored = self.failures.evidence
        if self.failures.evidence is not None and line not in self.failures.evidence.degraded:
            self.failures.evidence.degraded.append(line)
            write_document(self, self.failures.evidence)

    def _finish(self, error: BaseException | None) -> bool:
        """Complete what is known; whether it is about this exception."""
        if error is None:
            dealt_with = not self.thread_ended and self.ignored is not self.failures.evidence
            if self.failures.evidence is not None and self.failures.evidence.raised is not None and dealt_with:
                self.failures.evidence.raised.uncaught = False
                self.tell_audits(self.failures.evidence)
                write_document(self, self.failures.evidence)
            elif self.failures.evidence is None:
                self.write_audit()
            return False
        chain = chain_of(error)
        if self.failures.examine_ending(chain):
            assert self.failures.evidence is not None and self.failures.evidence.raised is not None
            self.failures.evidence.raised.causes = [f"{type(e).__name__}: {text_of(e)}"[:500] for e in chain[:-1]]
            write_document(self, self.failures.evidence)
            return True
        if self.thread_ended and self.failures.evidence is not None:
            return False  # the program's own end follows from that of the thread
        self.failures.examine_uncaught(error, chain)
        return True

    # -- runs that go on -----------------------------------------------------------------------------------------

    def write_audit(self) -> None:
        """Write what the audits have found, if they have; no failure has been examined."""
        if any(audit.found() for audit in self.audits):
            with self.quiet():
                told = self.audit.evidence() if self.audit is not None else None
                evidence = told or start_document(self)
                self.tell_audits(evidence)
                if evidence.signs:
                    write_document(self, evidence)

    def tell_audits(self, evidence: Evidence) -> None:
        """Add what the audits have found."""
        for audit in self.audits:
            try:
                if audit.found():
                    audit.tell(evidence)
            except Exception as e:
                self.trouble(e)

    def scaled(self) -> bool:
        """Whether the program has used a GradScaler, which may leave steps out."""
        return any(getattr(probe, "scaled", False) for probe in self.probes)

    def scaler_calls(self) -> list[Any]:
        """The latest calls of scalers that scale (see ``graphdoc.capture.scaling``)."""
        return [call for probe in self.probes for call in getattr(probe, "scaler_calls", ())]

    def fill_scaler(self, evidence: Evidence) -> None:
        """Tell of them in the evidence of a run in which no scaler refused a call."""
        for probe in self.probes:
            fill = getattr(probe, "fill_scaler", None)
            if fill is not None:
                fill(evidence, self.cwd)

    def starved(self) -> dict[str, Any] | None:
        """What is known of a GradScaler that leaves out every step, at whatever scale; None where there is none."""
        return next((found for probe in self.probes if (found := getattr(probe, "starved", None))), None)

    def quiet(self) -> Any:
        """While we look around, no stack is recorded and nothing that we read may warn."""
        return Quiet(self.anomaly)

    def went_on(self, error: BaseException | None) -> None:
        """A piece of a program that goes on has ended, by this exception if there is one; the next is another one."""
        try:
            if error is not None:
                self._finish(error)
        except Exception as e:
            self.trouble(e)
        self.failures.forget()

    def forked(self) -> None:
        """A forked child is another process: its own file, its own end."""
        self.pid = os.getpid()
        self.failures.forget()

    def undo(self) -> None:
        """Put everything back as it was."""
        self.over = True
        atexit.unregister(self.at_exit)
        stacks.forget_here()
        while self.undoing:
            try:
                self.undoing.pop()()
            except Exception as e:
                self.trouble(e)
        if self.calls.printed in stacks.printed:
            stacks.printed.remove(self.calls.printed)

    def trouble(self, error: BaseException) -> None:
        """Something of ours has failed: the parent is told, the program goes on."""
        if not isinstance(error, RecursionError):
            note_trouble(self.out, error)
        elif AT_LIMIT not in self.degraded:
            self.degraded.append(AT_LIMIT)
