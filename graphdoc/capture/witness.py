"""The witness: stands beside every call into the autograd engine and keeps the journal; examines where one fails."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
import time
import warnings
from sys import _getframe
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from torch.autograd.graph import GradientEdge

from graphdoc.capture import stacks
from graphdoc.capture.anomaly import UsersView, keep_users_view
from graphdoc.capture.autopsy import Autopsy
from graphdoc.capture.calls import Call, Glimpse, came_through, failed_call, noted_of, raised_again
from graphdoc.capture.children import watch_children
from graphdoc.capture.document import start_document, write_document
from graphdoc.capture.facts import frames_of_traceback, grad_fn_of, user_frames
from graphdoc.capture.finite import FiniteWatch
from graphdoc.capture.frames import frames_of
from graphdoc.capture.hints import Hints
from graphdoc.capture.ignored import watch_ignored
from graphdoc.capture.inserted_calls import CannotInsert, insert_calls, token_name
from graphdoc.capture.journal import DEPTH, Entry, Journal, Place, leaves_behind
from graphdoc.capture.marks import leave, process_name
from graphdoc.capture.ours import chain_of, is_ours, text_of
from graphdoc.capture.quiet import Quiet, Unseen
from graphdoc.capture.saved import watch_hooks
from graphdoc.capture.shown_warnings import note_warnings
from graphdoc.capture.source_texts import remember_modules, remember_script
from graphdoc.capture.stopping import Stopping
from graphdoc.capture.switches import Switches, frames_of_place
from graphdoc.capture.walk import DEEP
from graphdoc.evidence import Evidence, Raised

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit

MOST_ASKED = 64
"""Inputs of a call of autograd.grad whose names are told."""
MOST_KINDS = 25
"""Kinds of failure, by place and words, of which one each is examined before it is known whether the program ends by
it: it may be killed first, or wait for ever for other ranks."""
MOST_THREADS = 50
"""Threads whose ends by an exception are looked at: the program itself goes on."""

_FILTER = ("ignore", None, UserWarning, None, 0)


class _AnomalyMessage:
    """Reads the warnings of anomaly mode as a warning filter does, and matches those that the user did not ask for.

    They begin with "Error detected in ExpBackward0. Traceback of …" (PyAnomalyMetadata::print_stack).
    """

    def __init__(self, view: UsersView) -> None:
        self._view = view
        self.node = ""

    def match(self, text: str) -> bool:
        text = text.lstrip()
        if text.startswith("Error detected in "):
            self.node = self.node or text[len("Error detected in ") :].partition(".")[0].split()[0]
        elif not text.startswith("Previous calculation was induced by "):
            return False
        return not self._view.wanted


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
        self.finite = FiniteWatch(self)
        self.stopping: Stopping | None = None
        self.frames: list[FrameType] = []
        """Those of the user's that the exception came through which is being examined."""
        self.failing: stacks.Stack | None = None
        self.evidence: Evidence | None = None
        self.told = -1
        self.whole = True
        self.last_failed = -1
        self._engine: CodeType | None = None
        self._token = ""
        self.kinds: set[tuple[Any, ...]] = set()
        self.over = False
        self.thread_ended = False
        self.ignored: Evidence | None = None
        """What was told of an exception that Python has printed because nothing could catch it."""
        self._compiling = torch.compiler.is_compiling
        self.degraded: list[str] = []
        self.began = 0
        """Autograd's sequence number of the first node that was observed."""
        self.capture = "cheap-stacks"
        self.probes: list[Any] = []
        self.audit: Audit | None = None
        self.looking = False
        """The next backward call is to be looked at, wherever it is made."""
        self.audits: list[Any] = [] if "nan-off" in mode.split(":") else [self.finite]
        """Each looks at a run that goes on: ``found()`` whether it has anything to tell, ``tell(evidence)`` adds it."""
        self.warnings: list[str] = []
        self._undo: list[Any] = []

    # -- installing ----------------------------------------------------------------------------------------------

    def install(self, told_of_end: bool = False) -> None:
        """Put everything in place. Whatever cannot be is told in ``degraded``, and the rest goes on.

        With ``told_of_end`` the caller calls ``at_exit`` when the process ends, else it is left to ``atexit``.
        """
        torch = self.torch
        remember_script()
        self._install_stacks()
        self.began = torch.autograd._get_sequence_nr()
        self._undo.append(note_warnings(self.warnings, self.cwd))
        from torch.autograd import graph

        engine = graph._engine_run_backward
        self._undo.append(watch_hooks(torch))
        try:
            assert isinstance(engine, FunctionType)
            before, after = self._before, self._after
            if "nan-stop" in self.mode.split(":"):
                before, after = self._before_or_stop, self._after_or_stop
            self._undo.append(insert_calls(engine, before=before, failed=self._failed, after=after))
            self._engine, self._token = engine.__code__, token_name(engine)
        except (CannotInsert, AssertionError) as e:
            self.degraded.append(f"backward calls were not observed: {e}")
        from torch.optim import optimizer

        self._undo.append(optimizer.register_optimizer_step_post_hook(self._after_step).remove)
        zero_grad = getattr(optimizer.Optimizer.zero_grad, "__wrapped__", optimizer.Optimizer.zero_grad)
        self.switches = Switches(torch)
        self._undo += self.switches.undo
        self._weave_call(zero_grad, "zero_grad")
        self._weave_call(torch.nn.Module.load_state_dict, "load_state_dict")
        if not told_of_end:
            atexit.register(self.at_exit)
        self._watch_threads()
        self._undo.append(watch_ignored(self))
        watch_children(self)

    def _install_stacks(self) -> None:
        torch = self.torch
        self._undo.append(stacks.stand_in(torch))
        stacks.printed.append(self._printed)
        self.anomaly = keep_users_view(torch)
        self._undo.append(self.anomaly.undo)
        self._message = _AnomalyMessage(self.anomaly)
        self._hints = Hints(torch, self.anomaly)
        self._filter = ("ignore", self._message, UserWarning, None, 0)
        self.capture = self._recording()
        hook = getattr(torch.autograd.graph, "node_creation_hook", None)
        if self.capture != "cheap-stacks" and hook is not None:
            # The official way of PyTorch 2.14 and later is second choice: it belongs to one thread, and it makes a
            # Python object for every node, each of which is freed inside the one that leads to it (see walk.DEEP).
            self.anomaly.switch_off()
            context = hook(stacks.keep_in)
            context.__enter__()
            self._undo.append(lambda: context.__exit__(None, None, None))
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
                self._trouble(e)
            finally:
                told(args)

        def undo() -> None:
            if threading.excepthook is hook:
                threading.excepthook = told

        threading.excepthook = hook
        self._undo.append(undo)

    def _weave_call(self, function: Any, kind: str) -> None:
        journal = self.journal

        def before(*values: Any) -> None:
            try:
                ident = -1
                if kind == "zero_grad":
                    seen = journal.optimizer(values[0])
                    ident = seen.id
                    if self.audit is not None:
                        self.audit.zeroed(values[0], seen)
                elif kind == "load_state_dict" and self.audit is not None:
                    self.audit.loaded(values[0], values[1])
                journal.add(kind, journal.look[kind](3), ident)  # before < the woven function < its caller
            except Exception as e:
                self._trouble(e)

        try:
            self._undo.append(insert_calls(function, before=before))
        except CannotInsert as e:
            self.degraded.append(f"{kind} calls were not observed: {e}")

    # -- the engine ----------------------------------------------------------------------------------------------

    def _before(self, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            # _engine_run_backward(outputs, grad_outputs, retain_graph, create_graph, inputs, allow_unreachable=…,
            # accumulate_grad=…): backward accumulates, grad does not.
            kind = "backward" if kwargs.get("accumulate_grad", True) else "grad"
            journal = self.journal
            remember_modules()
            seen = journal.look[kind](3)  # _before < the woven function < backward or grad
            stacks.another_call()
            first = root_of(outputs[0]) if outputs else None
            sequence, op = -1, ""
            if first is not None:
                sequence, op = first._sequence_nr(), type(first).__name__  # as name(), and at hand
            leaves = leaves_behind(roots_of_call(outputs)) if journal.is_early(seen) or self.looking else None
            reaches = frozenset(leaves) if leaves is not None else None
            known = sequence if sequence < 1 << 62 else -1
            how = (bool(args[1]), bool(args[2])) if len(args) > 2 else (False, False)
            noted = journal.add(kind, seen, -1, (known, op, len(outputs), how, reaches))
            if leaves is not None and self.audit is not None:
                self.audit.called(noted, outputs, leaves)
            self.finite.root(outputs, noted[0])
            if self.anomaly.wanted:
                self.anomaly.hide_ours(roots_of_call(outputs))
            # Our stacks make PyTorch print a warning about them when backward fails: the user did not ask for it.
            # The list is changed without _filters_mutated(), so no registry of shown warnings is reset.
            warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
            # Lives as long as the call does, which holds the same tensors.
            return [noted, outputs, args]
        except Exception as e:
            self._trouble(e)
            return None

    def _before_or_stop(self, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.stopping is None:
            self.stopping = Stopping(self)
            self._undo += self.stopping.watch()
        with self._quiet():
            self.stopping.before(outputs, roots_of_call(outputs))
        return self._before(outputs, args, kwargs)

    def _after_or_stop(self, call: Any) -> None:
        self._after(call)
        if self.stopping is not None:
            with self._quiet():
                self.stopping.after()

    def _failed(self, call: Call | None, error: BaseException) -> None:
        """The engine has raised. The program may catch this, and do so thousands of times: no more than a glance.

        Only the first failure of its kind is examined here. Any other is examined when it has ended the program: the
        exception's own traceback keeps all that is needed for it, as long as anybody keeps the exception.
        """
        if call is None:
            return
        try:
            self.journal.failed(noted_of(call))
            if not self.anomaly.wanted:
                self._hints.put_back(error)
            trace = error.__traceback__  # begins in the frame that has caught it
            if trace is not None and came_through(trace.tb_next, self._engine):
                return  # an inner call (a custom Function's backward) has seen this very exception already
            self.last_failed = noted_of(call)[0]
            call.append(Glimpse(self.torch, self.switches, self.journal.count, self.failing, self._message.node))
            if is_ours(error) and self._is_first(call, error):
                self._examine(call, error, _getframe(2), False)  # _failed < the woven function < who called it
        except Exception as e:
            self._trouble(e)
        finally:
            self.failing, self._message.node = None, ""

    def _is_first(self, call: Call, error: BaseException) -> bool:
        """Whether nothing like this has been examined: the same calls, the same beginning of the message."""
        seen = noted_of(call)[3][:-1][: 2 * DEPTH]
        kind = (type(error), text_of(error)[:40], *map(id, seen[::2]), *seen[1::2])
        if kind in self.kinds or len(self.kinds) >= MOST_KINDS:
            return False
        self.kinds.add(kind)
        return True

    def _after(self, call: Any) -> None:
        if call is not None:
            try:
                warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
            except ValueError:
                pass

    def _printed(self, stack: stacks.Stack) -> bool:
        """PyTorch prints the stack of the node that failed first; its parents follow and are not it."""
        if self.failing is None:
            self.failing = stack
        if not self.anomaly.wanted and stacks.made_in_backward(stack, self._engine):
            stacks.disown(stack)
        return self.anomaly.wanted

    def _examine(self, call: Call, error: BaseException, frame: FrameType, ending: bool) -> None:
        """Look at the graph of a call that has failed and write down what was seen. ``frame`` made the call.

        While it is not known whether the program ends by it, a very large graph is looked at in part only.
        """
        noted, outputs, args, glimpse = call
        with Unseen(self.torch, self.anomaly, frame):
            evidence = self._start(error)
            assert evidence.raised is not None
            evidence.raised.stack = frames_of(stacks.stack_of_seen(noted[3]), self.cwd)
            autopsy = Autopsy(self.torch, self.journal, self.cwd, user_frames(frame), self._watch(), glimpse.count)
            if not ending:
                autopsy.limit = DEEP - 1
            autopsy.fill_program(evidence)
            entry = next((e for e in autopsy.entries if e.index == noted[0]), None) or Entry(noted, Place(), 0, True)
            roots = roots_of_call(outputs)
            autopsy.fill_graph(evidence, roots, glimpse.failing, glimpse.name, entry)
            if any(found.sequence < self.began for found in autopsy.order):
                evidence.degraded.append("part of this graph was made before it was observed: where is not known")
            self._fill_extras(evidence, autopsy, glimpse)
            inputs = args[3] if len(args) > 3 else None
            evidence.extras["inputs"] = len(inputs) if inputs is not None else 0
            known = autopsy.census.parameter_names
            evidence.extras["asked"] = [known.get(id(t), "") for t in (inputs or ())[:MOST_ASKED]]
            for probe in self.probes:
                probe.fill(evidence, autopsy, roots, [t for t in outputs if hasattr(t, "grad_fn")])
            if "returned nan" in evidence.message:
                self.finite.tell_failed(evidence, noted[0])
            self.evidence = evidence
            self.told, self.whole = noted[0], len(autopsy.order) < autopsy.limit
            write_document(self, evidence, ending)

    # -- optimizers ----------------------------------------------------------------------------------------------

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._compiling():
            return  # torch.compile reads this function instead of running it
        try:
            journal = self.journal
            seen = journal.stepped(optimizer)
            journal.add("step", journal.look["step"](2), seen.id)
            if self.audit is not None:
                self.audit.stepped(optimizer, seen)
        except Exception as e:
            self._trouble(e)

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
            self._trouble(e)
        self.undo()
        leave(self.out, "ended")

    def ignore(self, error: Exception, where: str) -> None:
        """Python is about to print this exception and to go on: it came out of ``where``, and nothing can catch it."""
        seen = any(
            is_ours(e) and failed_call(e.__traceback__, self._engine, self._token) is not None for e in chain_of(error)
        )
        if not seen and (self.evidence is not None or not isinstance(error, RuntimeError)):
            return
        line = f"nothing could catch this exception: Python printed it and left {where}"
        self.degraded.append(line)
        self._finish(error)
        self.ignored = self.evidence
        if self.evidence is not None and line not in self.evidence.degraded:
            self.evidence.degraded.append(line)
            write_document(self, self.evidence)

    def _finish(self, error: BaseException | None) -> bool:
        """Complete what is known; whether it is about this exception."""
        if error is None:
            dealt_with = not self.thread_ended and self.ignored is not self.evidence
            if self.evidence is not None and self.evidence.raised is not None and dealt_with:
                self.evidence.raised.uncaught = False
                self._audit(self.evidence)
                write_document(self, self.evidence)
            elif self.evidence is None:
                self.write_audit()
            return False
        chain = chain_of(error)
        if self._examine_ending(chain):
            assert self.evidence is not None and self.evidence.raised is not None
            self.evidence.raised.causes = [f"{type(e).__name__}: {text_of(e)}"[:500] for e in chain[:-1]]
            write_document(self, self.evidence)
            return True
        if self.thread_ended and self.evidence is not None:
            return False  # the program's own end follows from that of the thread
        self.examine_uncaught(error, chain)
        return True

    def _examine_ending(self, chain: list[BaseException]) -> bool:
        """Whether the exception that ends the program, or one behind it, came out of the engine and is told now."""
        for e in chain:
            found = failed_call(e.__traceback__, self._engine, self._token) if is_ours(e) else None
            if found is not None:
                call, frame = found
                if self.told != noted_of(call)[0] or not self.whole:
                    self._examine(call, e, frame, True)
                return True
        raised = self.evidence.raised if self.evidence is not None and self.told == self.last_failed else None
        # Who raises it again without its traceback, or clears its frames, means the last failure that there was.
        same = [e for e in chain if raised and (raised.type, raised.message) == (_type_name(e), text_of(e))]
        return any(raised_again(e.__traceback__) or came_through(e.__traceback__, self._engine) for e in same)

    def examine_uncaught(self, error: BaseException, chain: list[BaseException]) -> None:
        """An exception that did not come out of the engine: its traceback still holds the frames."""
        with Unseen(self.torch, self.anomaly, None):
            innermost = chain[-1]
            evidence = self._start(error)
            assert evidence.raised is not None
            evidence.raised.stack = frames_of(stacks.stack_of_traceback(error.__traceback__), self.cwd)
            evidence.raised.causes = [f"{type(e).__name__}: {text_of(e)}"[:500] for e in chain[1:]]
            frames = frames_of_traceback(innermost.__traceback__)
            autopsy = Autopsy(self.torch, self.journal, self.cwd, frames)
            autopsy.fill_program(evidence)
            self._fill_extras(evidence, autopsy, Glimpse(self.torch, self.switches, self.journal.count, None, ""))
            for probe in self.probes:
                probe.fill(evidence, autopsy, [], [])
            self.frames = frames
            self._audit(evidence)
            self.frames = []
            write_document(self, evidence)

    # -- runs that go on -----------------------------------------------------------------------------------------

    def write_audit(self) -> None:
        """Write what the audits have found, if they have; no failure has been examined."""
        if any(audit.found() for audit in self.audits):
            with self._quiet():
                told = self.audit.evidence() if self.audit is not None else None
                evidence = told or start_document(self)
                self._audit(evidence)
                if evidence.signs:
                    write_document(self, evidence)

    def _audit(self, evidence: Evidence) -> None:
        for audit in self.audits:
            try:
                if audit.found():
                    audit.tell(evidence)
            except Exception as e:
                self._trouble(e)

    def _fill_extras(self, evidence: Evidence, autopsy: Autopsy, glimpse: Glimpse) -> None:
        evidence.extras["locals"] = autopsy.locals_of()
        evidence.extras["switches"] = {
            kind: [vars(f) for f in frames_of_place(place, self.cwd)] for kind, place in glimpse.switches.items()
        }
        evidence.extras["grad_enabled"] = glimpse.recording

    def scaled(self) -> bool:
        """Whether the program has used a GradScaler, which may leave steps out."""
        return any(getattr(probe, "scaled", False) for probe in self.probes)

    def scaler_calls(self) -> list[Any]:
        """The latest calls of scalers that scale (see ``graphdoc.capture.scaling``)."""
        return [call for probe in self.probes for call in getattr(probe, "scaler_calls", ())]

    def _watch(self) -> Any:
        return next((p for p in self.probes if hasattr(p, "writes_to")), None)

    def _start(self, error: BaseException) -> Evidence:
        evidence = start_document(self)
        compiled = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if compiled and compiled["frames"]:
            evidence.degraded.append("inside what torch.compile has compiled, operations were not seen one by one")
        evidence.raised = Raised(_type_name(error), text_of(error))
        return evidence

    def _quiet(self) -> Any:
        """While we look around, no stack is recorded and nothing that we read may warn."""
        return Quiet(self.anomaly)

    def went_on(self, error: BaseException | None) -> None:
        """A piece of a program that goes on has ended, by this exception if there is one; the next is another one."""
        try:
            if error is not None:
                self._finish(error)
        except Exception as e:
            self._trouble(e)
        self.forget_failures()

    def forked(self) -> None:
        """A forked child is another process: its own file, its own end."""
        self.pid = os.getpid()
        self.forget_failures()

    def forget_failures(self) -> None:
        """What failed so far has been told; what happened stays in the journal."""
        self.evidence = None
        self.told = self.last_failed = -1
        self.kinds = set()

    def undo(self) -> None:
        """Put everything back as it was."""
        self.over = True
        atexit.unregister(self.at_exit)
        stacks.forget_here()
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as e:
                self._trouble(e)
        if self._printed in stacks.printed:
            stacks.printed.remove(self._printed)

    def _trouble(self, error: BaseException) -> None:
        note_trouble(self.out, error)


def note_trouble(out: str, error: BaseException) -> None:
    """One line for the parent; the script's own result stands whatever happens to us."""
    import traceback

    try:
        where = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
        with open(os.path.join(out, f"trouble-{process_name()}.txt"), "a", encoding="utf-8") as f:
            f.write(f"{type(error).__name__}: {error}{place}".replace("\n", " ")[:500] + "\n")
        if os.environ.get("GRAPHDOC_DEBUG"):
            traceback.print_exception(error)
    except Exception:
        pass


def root_of(output: Any) -> Any:
    """The graph node of what backward was called with: a tensor, or an edge of ``torch.autograd.graph``."""
    return output.node if isinstance(output, GradientEdge) else grad_fn_of(output)


def roots_of_call(outputs: Any) -> list[Any]:
    """The graph nodes of all that backward was called with."""
    return [root_of(output) for output in outputs]


def _type_name(error: BaseException) -> str:
    cls = type(error)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"
