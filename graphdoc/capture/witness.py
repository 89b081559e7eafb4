"""The witness: everything of ours in the user's process, with its processes, modes, warnings and watched calls."""

from __future__ import annotations

import atexit
import inspect
import itertools
import json
import multiprocessing.process
import multiprocessing.util
import os
import re
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from types import CodeType, FrameType, GeneratorType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.events.cut_records import Switches
from graphdoc.capture.events.engine_calls import EngineCalls
from graphdoc.capture.events.finite import FiniteWatch, Stopping
from graphdoc.capture.events.journal import Journal
from graphdoc.capture.events.learned import Learned
from graphdoc.capture.events.scaling import ScalerCalls
from graphdoc.capture.failures import Failures
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import shown_file
from graphdoc.capture.places.source_texts import remember_script
from graphdoc.capture.process.hooks import look_before
from graphdoc.capture.process.ignored import note_trouble, watch_ignored
from graphdoc.capture.process.inserted_calls import CannotInsert, insert_calls
from graphdoc.capture.process.marks import leave
from graphdoc.capture.process.ours import chain_of, text_of
from graphdoc.capture.process.quiet import Quiet, UsersView
from graphdoc.capture.tensors.facts import user_frames
from graphdoc.capture.tensors.living import let_swap
from graphdoc.capture.tensors.saved import watch_hooks
from graphdoc.capture.written_evidence import start_document, write_document
from graphdoc.evidence import GRADIENTS_ASKED, LEARNED, Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.trials.trace import StepCount


# Processes made by multiprocessing: they end without Python's ordinary exit, and some are none of our business.

_latest: list[weakref.ref[Witness]] = []
"""The witness that observes this process now. Python forgets nothing that ``os.register_at_fork`` was given, so it is
given one function, once."""


def watch_children(witness: Witness) -> None:
    """Let the witness see the end of every process that is made from this one, and of this one if it was made so."""
    if not _latest:
        os.register_at_fork(after_in_child=_forked)
    _latest[:] = [weakref.ref(witness)]
    multiprocessing.util.register_after_fork(witness, _started)
    # While a spawned process reads what it is to run, it is not yet known as a child; nothing tells it later.
    reading = getattr(multiprocessing.process.current_process(), "_inheriting", False)
    if reading or multiprocessing.process.parent_process() is not None:
        _started(witness)


def _forked() -> None:
    witness = _latest[0]()
    if witness is not None and not witness.over:
        witness.forked()


def _started(witness: Witness) -> None:
    """Runs in the child, before its function does (or when it imports torch)."""
    if witness.over:
        return
    process = multiprocessing.process.current_process()
    target = getattr(process, "_target", None)
    if str(getattr(target, "__module__", "")).startswith("torch.utils.data"):
        witness.undo()  # a DataLoader worker: what fails there is told by the process that it works for
        leave(witness.out, "ended")
        return

    def ending() -> None:
        # Called in a ``finally`` of Process._bootstrap: an exception that ends the process is being handled just now.
        if not witness.over:
            _finish(witness, sys.exc_info()[1])

    multiprocessing.util.Finalize(None, ending, exitpriority=-10)
    if sys.version_info >= (3, 13):
        _watch_run(witness, process)


def _finish(witness: Witness, error: BaseException | None) -> None:
    if isinstance(error, SystemExit) and isinstance(error.__context__, Exception):
        error = error.__context__  # torch.multiprocessing.spawn has sent it to the parent and exits
    witness.finish(error if isinstance(error, Exception) else None)


if sys.version_info >= (3, 13):

    def _watch_run(witness: Witness, process: Any) -> None:
        """See the exception that leaves ``Process.run``.

        From Python 3.13 finalizers run after Process._bootstrap has dealt with it (gh-83856: atexit calls them), and
        nothing keeps it. ``sys.monitoring`` tells of every frame that an exception leaves: it adds no frame to a
        traceback, costs nothing until something is raised, and sees also a ``run`` that is already on its way.
        """
        monitoring = sys.monitoring
        run = getattr(type(process).run, "__code__", None)
        free = [tool for tool in (4, 3) if monitoring.get_tool(tool) is None]  # those that have no fixed meaning
        if run is None or not free:
            return

        def left(code: CodeType, _offset: int, error: BaseException) -> None:
            if code is run and not witness.over:
                stop()
                _finish(witness, error)

        def stop() -> None:
            if monitoring.get_tool(free[0]) == "graphdoc":
                monitoring.set_events(free[0], 0)
                monitoring.free_tool_id(free[0])

        monitoring.use_tool_id(free[0], "graphdoc")
        monitoring.register_callback(free[0], monitoring.events.PY_UNWIND, left)
        monitoring.set_events(free[0], monitoring.events.PY_UNWIND)
        witness.undoing.append(stop)


# The program's own function and dispatch modes see every call on a tensor: ours too, unless they are left first.


class _Nothing:
    """A block in which nothing is different, entered and left by functions of C: three of them lie in each step."""

    __enter__, __exit__ = bool, "".format


_NOTHING: AbstractContextManager[Any] = _Nothing()  # type: ignore[assignment]


class Modes:
    """Leaves the modes that are on while we look around; where none is on that costs two calls of C."""

    def __init__(self, torch: Any) -> None:
        from torch.utils import _python_dispatch

        self._torch = torch
        self._functions = getattr(torch._C, "_len_torch_function_stack", lambda: 0)
        self._operators = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        self._apart = getattr(_python_dispatch, "_disable_current_modes", ExitStack)

    def left(self) -> AbstractContextManager[Any]:
        """A block in which they are left; the same one, which does nothing, wherever none is on."""
        functions, operators = self._functions(), self._operators()
        if not functions and not operators:
            return _NOTHING
        left = ExitStack()
        if functions:
            left.enter_context(self._torch._C.DisableTorchFunction())
        if operators:
            left.enter_context(self._apart())
        return left


# Which of PyTorch's own warnings the program was shown, and for which line of its own: facts that no object keeps.

STREAMS = "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient."
"""How the one begins that the audit hears of (input_buffer.cpp)."""

MOST_KEPT = 20
MOST_SHOWN = 500
"""Warnings that are looked at."""


@cache
def _known() -> list[tuple[str, str]]:
    """The patterns of PyTorch's warnings in the table of messages, each with the plain text that it begins with. Any
    other warning is the user's own, and not our business."""
    with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "messages", "patterns.json"), "rb") as f:
        told = [entry for entry in json.load(f) if entry["kind"] == "warning"]
    patterns = [one["pattern"] for entry in told for one in (entry, *entry["aliases"])]
    return [(re.sub(r"\\(.)", r"\1", _BEGINNING.match(pattern).group()), pattern) for pattern in patterns]  # type: ignore[union-attr]


_BEGINNING = re.compile(r"(?:(?:[^\\\[(){}?.|*+]|\\\W)(?![?{*+]))*")


def known_warning(text: str) -> str:
    """As much of a warning as is PyTorch's own, in the longest of its wordings; empty where it is none."""
    text = " ".join(text.split())
    matches = (re.match(pattern, text) for beginning, pattern in _known() if text.startswith(beginning))
    return max((m.group() for m in matches if m), key=len, default="")


# The witness: everything of ours inside the user's process, from what is put in place to what is told at the end.

AT_LIMIT = "the program came close to Python's recursion limit, and what it did there was not observed"
MOST_THREADS = 50
"""Threads whose ends by an exception are looked at: the program itself goes on."""


class Witness:
    """Everything that runs inside the user's process. One per process; ``install`` makes it, exit undoes it."""

    def __init__(self, torch: Any, out: str, mode: str) -> None:
        self.torch = torch
        self.out = out
        self.mode = mode
        self.words = mode.split(":")
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
        self.audited = False
        """What the audits had found has been written: where they contradict it later, it is written again."""
        self._compiling = torch.compiler.is_compiling
        self.degraded: list[str] = []
        self.thread = self.journal.here.number
        self.began = 0
        """Autograd's sequence number of the first node that was observed."""
        self.capture = "cheap-stacks"
        self.probes: list[Any] = []
        self.audit: Audit | None = None
        self.learned: Learned | None = None
        self.step_count: StepCount | None = None
        self.looking = False
        """The next backward call is to be looked at, wherever it is made."""
        self.audits: list[Any] = [] if "nan-off" in self.words else [self.finite]
        """Each looks at a run that goes on: ``found()`` whether it has anything to tell, ``tell(evidence)`` adds it."""
        self.warnings: list[str] = []
        self._shown = itertools.count()
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
        # Python shows every warning through it, whatever ``showwarning`` the program has put in: filters stay as they
        # are, and nothing runs where nothing is shown.
        self.watch(warnings, "_showwarnmsg", "warnings", before=self._warning)
        watch_hooks(self)
        self.undoing.append(let_swap(torch.utils))
        self.calls.watch()
        from torch.optim import optimizer

        self.undoing.append(optimizer.register_optimizer_step_post_hook(self._after_step).remove)
        self.switches = Switches(self)
        self.scaler = ScalerCalls(self)
        kind, module = optimizer.Optimizer, torch.nn.Module
        self.watch(kind, "__init__", "places at which optimizers are made", before=self._making)
        self.watch(kind, "zero_grad", "zero_grad calls", before=self._clearing)
        self.watch(module, "zero_grad", "zero_grad calls of modules", before=self._emptying)
        self.watch(module, "load_state_dict", "load_state_dict calls", before=self._loading)
        self.watch(module, "state_dict", "state_dict calls", before=self._is_whole, gave=self._gave_state)
        self.watch(module, "__setstate__", "copies of modules", before=self._copied)
        self.watch(kind, "add_param_group", "groups that optimizers are given", before=self._collected)
        self.undoing.append(torch.nn.modules.module.register_module_parameter_registration_hook(self._born).remove)
        if not told_of_end:
            atexit.register(self.at_exit)
        self._watch_threads()
        self.undoing.append(watch_ignored(self))
        watch_children(self)

    def _install_stacks(self) -> None:
        torch = self.torch
        self.undoing.append(stacks.stand_in(torch))
        self.anomaly = UsersView(torch)
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
            context = hook(stacks.keep_in)
            context.__enter__()
            self.undoing.append(lambda: context.__exit__(None, None, None))
            self.capture = "node-hook" if self._recording() == "cheap-stacks" else "none"
        if LEARNED in self.words and self.capture == "cheap-stacks":
            self.learned = Learned(self)

    def _recording(self) -> str:
        """What a node that is made now keeps: our stack, anomaly mode's own text, or nothing."""
        with self.torch.enable_grad():
            node = self.torch.zeros(1, requires_grad=True).exp().grad_fn
        kept = node.metadata.get("traceback_")
        return "cheap-stacks" if isinstance(kept, stacks.Stack) else "anomaly" if kept else "none"

    def _watch_threads(self) -> None:
        """Python tells of an exception that ends a thread by ``threading.excepthook`` (Python 3.8 and later)."""
        ended = itertools.count()

        def look(args: Any) -> None:
            if args.exc_value is not None and next(ended) < MOST_THREADS and self._finish(args.exc_value):
                self.thread_ended = True

        self.undoing.append(look_before(threading, "excepthook", look, self.trouble))

    # -- calls that are watched ----------------------------------------------------------------------------------

    def watch(self, owner: Any, name: str, told: str, **calls: Any) -> bool:
        """Insert calls into a function of PyTorch's (see ``insert_calls``) until the witness is undone; whether that
        can be. Else ``told`` were not observed."""
        try:
            function: Any = inspect.unwrap(getattr(owner, name))
            self.undoing.append(insert_calls(function, **{"trouble": self.trouble} | calls))
            return True
        except (CannotInsert, AttributeError, TypeError) as e:
            self.degraded.append(f"{told} were not observed: {e}")
            return False

    def _warning(self, shown: Any, *_: Any) -> None:
        """Note one of PyTorch's, with the user's innermost line: ``train.py:12: text``."""
        if len(self.warnings) >= MOST_KEPT or next(self._shown) >= MOST_SHOWN:
            return
        if known := known_warning(text_of(shown.message)):
            file, line = shown.filename, shown.lineno
            for frame in user_frames(sys._getframe(1))[:1]:
                file, line = frame.f_code.co_filename, frame.f_lineno
            self.warnings.append(f"{shown_file(str(file), self.cwd)}:{int(line)}: {known}")
            if known.startswith(STREAMS) and self.audit is not None:
                self.audit.streams.mismatched()

    def _making(self, optimizer: Any, *_: Any) -> None:
        self.journal.begins(optimizer, stacks.stack_here(3))  # this < Optimizer.__init__ < its caller

    def _collected(self, optimizer: Any, group: Any, *_: Any) -> None:
        """An optimizer may be given a generator that something else has gone through."""
        given = group.get("params") if type(group) is dict else None
        if type(given) is GeneratorType and given.gi_frame is None:
            self.journal.spent(optimizer)[len(optimizer.param_groups)] = given.gi_code

    def _born(self, _module: Any, _name: str, parameter: Any) -> None:
        try:
            if type(parameter) is self.torch.nn.Parameter:
                # The lambda < Journal.born < this < register_parameter.
                self.journal.born(parameter, lambda: stacks.stack_here(4))
        except Exception as e:
            self.trouble(e)

    def _copied(self, _module: Any, state: Any, *_: Any) -> None:
        """A deep copy, or what was read from a file, is given its parameters without registering them."""
        mine = state.get("_parameters") if type(state) is dict else None
        self.journal.given([p for p in (mine or {}).values() if p is not None])

    def _clearing(self, optimizer: Any, *_: Any) -> None:
        with self.modes.left():
            self.anomaly.again()
            seen = self.journal.optimizer(optimizer)
            if self.audit is not None and seen.steps + 1 >= seen.due:
                self.audit.zeroed(optimizer, seen)
            self.journal.add("zero_grad", self.journal.look["zero_grad"](3), seen.id)

    def _emptying(self, module: Any, *_: Any) -> None:
        """A module clears gradients as well; the journal is the optimizers', so only the audit hears of it."""
        if self.audit is not None and self.audit.hears:
            with self.modes.left():
                self.audit.emptied(module)

    def _loading(self, module: Any, state: Any, _strict: Any = True, assign: Any = False, *_: Any) -> None:
        with self.modes.left():
            if self.audit is not None:
                self.audit.loaded(module, state, assign is True)
            self.journal.add("load_state_dict", self.journal.look["load_state_dict"](3))

    def _is_whole(self, _module: Any, destination: Any, *_: Any) -> bool:
        return destination is None  # else it is the state of one of the modules within

    def _gave_state(self, whole: Any, state: Any) -> Any:
        """A module hands out its state: what it gives is its own memory; a load of that later restores nothing."""
        if whole and self.audit is not None:
            with self.modes.left():
                self.audit.given(state)
        return state

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._compiling():
            return  # torch.compile reads this function instead of running it
        try:
            with self.modes.left():
                journal = self.journal
                seen = journal.stepped(optimizer)
                noted = journal.add("step", journal.look["step"](2), seen.id)
                seen.sequence = noted[2]
                self.finite.stepped(optimizer, seen)
                if self.step_count is not None:
                    self.step_count.stepped(noted[0], seen.id)
                if self.audit is not None and seen.steps >= seen.due:
                    self.audit.stepped(optimizer, seen)
                if self.learned is not None:
                    self.learned.stepped(seen)
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
            if self.audit is not None:
                self.audit.over = error is None
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
                calls = [e for e in reversed(self.journal.entries()) if e.kind == "backward"]
                # Of one place: checks that each expect an error of their own are no training.
                row = itertools.takewhile(lambda e: e.failed and e.place is calls[0].place, calls)
                self.failures.evidence.raised.in_a_row = len(list(row))
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
        if self.audited or self._asked() or any(audit.found() for audit in self.audits):
            with self.quiet():
                told = self.audit.evidence() if self.audit is not None else None
                evidence = told or start_document(self)
                self.tell_audits(evidence)
                if self.audited or evidence.signs:
                    write_document(self, evidence)
                    self.audited = True

    def tell_audits(self, evidence: Evidence) -> None:
        """Add what the audits have found."""
        for audit in self.audits:
            try:
                if audit.found():
                    audit.tell(evidence)
            except Exception as e:
                self.trouble(e)
        if self._asked():
            evidence.signs.append(Sign(GRADIENTS_ASKED, weak=True, facts={"optimizers": self.journal.trained}))

    def _asked(self) -> bool:
        """Whether the user has asked for the gradients to be measured, and there are some: a second run does that, also
        where nothing else is to be told."""
        return "check-gradients" in self.words and bool(self.journal.optimizers)

    def fill(self, evidence: Evidence, autopsy: Autopsy, roots: list[Any], outputs: Sequence[Any]) -> None:
        """What is told of a failure besides its graph: the user's Functions in it, the calls of a GradScaler, what an
        optimizer has refused, and what the probes know. One that cannot be told never costs the rest."""
        from graphdoc.capture.graph import functions, refused

        with_graph = any(r is not None for r in roots)
        tells = (functions.fill, refused.fill_freed) if with_graph else () if roots else (refused.fill,)
        for tell in tells:
            try:
                tell(evidence, autopsy)
            except Exception as e:
                self.trouble(e)
        self.scaler.fill(evidence, refused=True)
        for probe in self.probes:
            if hasattr(probe, "fill"):
                probe.fill(evidence, autopsy, roots, [t for t in outputs if hasattr(t, "grad_fn")])

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
        self.pid, self.audited = os.getpid(), False
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
