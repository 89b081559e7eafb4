"""The witness: stands beside every call into the autograd engine and keeps the journal; examines where one fails."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
import time
import warnings
from inspect import CO_OPTIMIZED
from sys import _getframe
from types import FrameType, FunctionType
from typing import Any

from torch.autograd.graph import GradientEdge

from graphdoc.capture import stacks
from graphdoc.capture.anomaly import UsersView, keep_users_view
from graphdoc.capture.autopsy import Autopsy
from graphdoc.capture.children import watch_children
from graphdoc.capture.document import start_document, write_document
from graphdoc.capture.facts import frames_of_traceback, grad_fn_of, user_frames
from graphdoc.capture.frames import frames_of
from graphdoc.capture.heard import hear
from graphdoc.capture.journal import Entry, Journal, Place, leaves_behind
from graphdoc.capture.places import is_user_file
from graphdoc.capture.switches import Switches, frames_of_place
from graphdoc.capture.texts import remember_modules, remember_script
from graphdoc.capture.weave import CannotWeave, weave
from graphdoc.evidence import Evidence, Raised

MOST_EXAMINATIONS = 25
"""A program that catches and retries is not examined more often than this."""

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
        self.failing: stacks.Stack | None = None
        self.evidence: Evidence | None = None
        self.caught: tuple[int, str] | None = None
        self.examined = 0
        self.over = False
        self.thread_ended = False
        self._compiling = torch.compiler.is_compiling
        self.degraded: list[str] = []
        self.capture = "cheap-stacks"
        self.probes: list[Any] = []
        self.warnings: list[str] = []
        self._undo: list[Any] = []

    # -- installing ----------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Put everything in place. Whatever cannot be is told in ``degraded``, and the rest goes on."""
        torch = self.torch
        remember_script()
        self._install_stacks()
        self._undo.append(hear(self.warnings, self.cwd))
        from torch.autograd import graph

        engine = graph._engine_run_backward
        try:
            assert isinstance(engine, FunctionType)
            self._undo.append(weave(engine, before=self._before, failed=self._failed, after=self._after))
        except (CannotWeave, AssertionError) as e:
            self.degraded.append(f"backward calls were not observed: {e}")
        from torch.optim import optimizer

        self._undo.append(optimizer.register_optimizer_step_post_hook(self._after_step).remove)
        zero_grad = getattr(optimizer.Optimizer.zero_grad, "__wrapped__", optimizer.Optimizer.zero_grad)
        self.switches = Switches(torch)
        self._undo += self.switches.undo
        self._weave_call(zero_grad, "zero_grad")
        self._weave_call(torch.nn.Module.load_state_dict, "load_state_dict")
        atexit.register(self._at_exit)
        self._watch_threads()
        watch_children(self)

    def _install_stacks(self) -> None:
        torch = self.torch
        self._undo.append(stacks.stand_in(torch))
        stacks.printed.append(self._printed)
        self.anomaly = keep_users_view(torch, nan=self.mode.endswith(":nan"))
        self._undo.append(self.anomaly.undo)
        self._message = _AnomalyMessage(self.anomaly)
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

        def hook(args: Any) -> None:
            try:
                if args.exc_value is not None and self._finish(args.exc_value):
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
                    ident = journal.optimizer(values[0]).id
                journal.add(kind, journal.look[kind](3), ident)  # before < the woven function < its caller
            except Exception as e:
                self._trouble(e)

        try:
            self._undo.append(weave(function, before=before))
        except CannotWeave as e:
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
            reaches = leaves_behind(roots_of_call(outputs)) if journal.is_early(seen) else None
            known = sequence if sequence < 1 << 62 else -1
            how = (bool(args[1]), bool(args[2])) if len(args) > 2 else (False, False)
            noted = journal.add(kind, seen, -1, (known, op, len(outputs), how, reaches))
            if self.anomaly.wanted:
                self.anomaly.hide_ours(roots_of_call(outputs))
            # Our stacks make PyTorch print a warning about them when backward fails: the user did not ask for it.
            # The list is changed without _filters_mutated(), so no registry of shown warnings is reset.
            warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
            # Lives as long as the call does, which holds the same tensors.
            return noted, outputs, args
        except Exception as e:
            self._trouble(e)
            return None

    def _failed(self, call: Any, error: BaseException) -> None:
        if call is None:
            return
        try:
            self.journal.failed(call[0])
            if not self.anomaly.wanted:
                self._as_without_us(error)
            if not isinstance(error, RuntimeError | ValueError | TypeError | NotImplementedError | IndexError):
                return
            key = (id(error), _text(error))
            if self.caught == key or self.examined >= MOST_EXAMINATIONS:
                return  # an inner call (a custom Function's backward) has seen this very exception already
            self.caught = key
            self.examined += 1
            frame = _getframe(2)  # _failed < the woven function < who called it
            try:
                with self._quiet():
                    self._examine(call, error, frame)
            finally:
                forget_locals(frame)
        except Exception as e:
            self._trouble(e)
        finally:
            self.failing, self._message.node = None, ""

    def _as_without_us(self, error: BaseException) -> None:
        """Put back the end of the version error's message, which tells of anomaly mode where that is on."""
        if not isinstance(error, RuntimeError) or "Good luck!" not in _text(error) or len(error.args) != 1:
            return
        hints = []
        for pausing in (False, True):
            if pausing:
                self.anomaly.pause()
            try:
                with self.torch.enable_grad():
                    x = self.torch.zeros(1, requires_grad=True).exp()
                x.detach().add_(1)
                x.grad_fn._saved_result  # noqa: B018
            except RuntimeError as e:
                hints.append(str(e).partition(" instead. ")[2])
            finally:
                if pausing:
                    self.anomaly.resume()
        if len(hints) == 2 and hints[0] and error.args[0].endswith(hints[0]):
            error.args = (error.args[0].removesuffix(hints[0]) + hints[1],)

    def _after(self, call: Any) -> None:
        if call is not None:
            try:
                warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
            except ValueError:
                pass

    def _printed(self, stack: stacks.Stack) -> None:
        """PyTorch prints the stack of the node that failed first; its parents follow and are not it."""
        if self.failing is None:
            self.failing = stack

    def _examine(self, call: Any, error: BaseException, frame: FrameType) -> None:
        noted, outputs, args = call
        evidence = self._start(error)
        assert evidence.raised is not None
        evidence.raised.stack = frames_of(stacks.stack_of_frame(frame), self.cwd)
        autopsy = Autopsy(self.torch, self.journal, self.cwd, user_frames(frame), self._watch())
        autopsy.fill_program(evidence)
        entry = next((e for e in autopsy.entries if e.index == noted[0]), None) or Entry(noted, Place(), 0, True)
        roots = roots_of_call(outputs)
        autopsy.fill_graph(evidence, roots, self.failing, self._message.node, entry)
        self._fill_extras(evidence, autopsy)
        evidence.extras["failing_call"] = entry.kind
        inputs = args[3] if len(args) > 3 else None
        evidence.extras["inputs"] = len(inputs) if inputs is not None else 0
        for probe in self.probes:
            probe.fill(evidence, autopsy, roots, [t for t in outputs if hasattr(t, "grad_fn")])
        self.evidence = evidence
        write_document(self, evidence)

    # -- optimizers ----------------------------------------------------------------------------------------------

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._compiling():
            return  # torch.compile reads this function instead of running it
        try:
            journal = self.journal
            seen = journal.stepped(optimizer)
            journal.add("step", journal.look["step"](2), seen.id)
        except Exception as e:
            self._trouble(e)

    # -- the end -------------------------------------------------------------------------------------------------

    def _at_exit(self) -> None:
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

    def _finish(self, error: BaseException | None) -> bool:
        """Complete what is known; whether it is about this exception."""
        if error is None:
            if self.evidence is not None and self.evidence.raised is not None and not self.thread_ended:
                self.evidence.raised.uncaught = False
                write_document(self, self.evidence)
            return False
        chain = _chain(error)
        if self.evidence is not None and self.caught in [(id(e), _text(e)) for e in chain]:
            assert self.evidence.raised is not None
            self.evidence.raised.causes = [f"{type(e).__name__}: {_text(e)}"[:500] for e in chain[:-1]]
            write_document(self, self.evidence)
            return True
        if self.thread_ended and self.evidence is not None:
            return False  # the program's own end follows from that of the thread
        self.examine_uncaught(error, chain)
        return True

    def examine_uncaught(self, error: BaseException, chain: list[BaseException]) -> None:
        """An exception that did not come out of the engine: its traceback still holds the frames."""
        with self._quiet():
            innermost = chain[-1]
            evidence = self._start(error)
            assert evidence.raised is not None
            evidence.raised.stack = frames_of(stacks.stack_of_traceback(error.__traceback__), self.cwd)
            evidence.raised.causes = [f"{type(e).__name__}: {_text(e)}"[:500] for e in chain[1:]]
            frames = frames_of_traceback(innermost.__traceback__)
            autopsy = Autopsy(self.torch, self.journal, self.cwd, frames)
            autopsy.fill_program(evidence)
            self._fill_extras(evidence, autopsy)
            for probe in self.probes:
                probe.fill(evidence, autopsy, [], [])
            write_document(self, evidence)

    def _fill_extras(self, evidence: Evidence, autopsy: Autopsy) -> None:
        evidence.extras["locals"] = autopsy.locals_of()
        evidence.extras["switches"] = {
            kind: [vars(f) for f in frames_of_place(place, self.cwd)] for kind, place in self.switches.last.items()
        }
        open_ = self.switches.innermost()
        recording = self.torch.is_grad_enabled() and not self.torch.is_inference_mode_enabled()
        evidence.extras["grad_enabled"] = bool(recording)
        if open_ is not None:
            evidence.extras["open_switch"] = open_[0]

    def _watch(self) -> Any:
        return next((p for p in self.probes if hasattr(p, "writes_to")), None)

    def _start(self, error: BaseException) -> Evidence:
        evidence = start_document(self)
        compiled = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if compiled and compiled["frames"]:
            evidence.degraded.append("inside what torch.compile has compiled, operations were not seen one by one")
        evidence.raised = Raised(_type_name(error), _text(error))
        return evidence

    def _quiet(self) -> Any:
        """While we look around, no stack is recorded and nothing that we read may warn."""
        return _Quiet(self)

    def forked(self) -> None:
        """A forked child is another process: its own file, its own end."""
        self.pid = os.getpid()
        self.evidence = None
        self.caught = None
        self.examined = 0

    def undo(self) -> None:
        """Put everything back as it was."""
        self.over = True
        atexit.unregister(self._at_exit)
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


class _Quiet:
    def __init__(self, witness: Witness) -> None:
        self.witness = witness

    def __enter__(self) -> None:
        # What the examination makes is freed with it; searching it for cycles only costs time.
        self.collecting = gc.isenabled()
        gc.disable()
        warnings.filters.insert(0, _FILTER_ALL)  # type: ignore[attr-defined]
        self.witness.anomaly.pause()

    def __exit__(self, *exc: object) -> None:
        self.witness.anomaly.resume()
        if self.collecting:
            gc.enable()
        try:
            warnings.filters.remove(_FILTER_ALL)  # type: ignore[attr-defined]
        except ValueError:
            pass


_FILTER_ALL = ("ignore", None, Warning, None, 0)


def note_trouble(out: str, error: BaseException) -> None:
    """One line for the parent; the script's own result stands whatever happens to us."""
    import traceback

    try:
        where = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
        with open(os.path.join(out, f"trouble-{os.getpid()}.txt"), "a", encoding="utf-8") as f:
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


def forget_locals(frame: FrameType | None) -> None:
    """Empty the copies that reading ``f_locals`` has left in these frames: they would keep the user's tensors alive.

    From Python 3.13 there is no copy; a module's or class body's ``f_locals`` are its real names at all times.
    """
    while frame is not None and sys.version_info < (3, 13):
        if frame.f_code.co_flags & CO_OPTIMIZED and is_user_file(frame.f_code.co_filename):
            frame.f_locals.clear()
        frame = frame.f_back


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and those that it was raised from or while handling, outermost first."""
    out: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and not any(current is e for e in out) and len(out) < 20:
        out.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return out


def _text(error: BaseException) -> str:
    """``str(error)``, whatever the class of the exception does when asked."""
    try:
        return str(error)
    except Exception:
        return ""


def _type_name(error: BaseException) -> str:
    cls = type(error)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"
