"""The calls into the autograd engine: what is noted before each, and the glimpse that is kept where one fails.

Functions of these are inserted into PyTorch's own function that calls the engine. What is known of a call is kept in
that function's frame, and lives and dies with it.
"""

from __future__ import annotations

import dis
import warnings
from sys import _getframe
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from torch.autograd import graph

from graphdoc.capture.events.cut_records import Place
from graphdoc.capture.events.finite import Stopping
from graphdoc.capture.events.journal import Noted, leaves_behind
from graphdoc.capture.graph.roots import other_roots, root_of, roots_of_call
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import entries_of
from graphdoc.capture.places.source_texts import remember_modules
from graphdoc.capture.process.inserted_calls import token_name
from graphdoc.capture.process.ours import chain_of, is_ours
from graphdoc.capture.process.quiet import UsersView

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


Call = list[Any]
"""The journal's note of it, what backward was called with, the engine's further arguments; and a ``Glimpse`` once it
has failed. A list, because one is made for every call."""


class Glimpse:
    """What is known only at the moment of the failure and costs nothing to keep. No tensor, no node."""

    __slots__ = ("count", "failing", "name", "recording", "switches")

    def __init__(self, witness: Witness, failing: stacks.Stack | None = None, name: str = "") -> None:
        torch = witness.torch
        self.count = witness.journal.count
        """Events of the journal until then."""
        self.failing = failing
        self.name = name
        self.switches: dict[str, Place] = dict(witness.switches.last)
        self.recording = bool(torch.is_grad_enabled() and not torch.is_inference_mode_enabled())


def came_through(trace: TracebackType | None, code: CodeType | None) -> bool:
    """Whether an exception with this traceback has come through a frame of ``code``."""
    return any(entry.tb_frame.f_code is code for entry in entries_of(trace))


def failed_call(trace: TracebackType | None, code: CodeType | None, name: str) -> tuple[Call, FrameType] | None:
    """The innermost call that an exception has come through and who made it, out of the exception's own traceback.

    Nothing else remembers it, so an exception that is gone can never be taken for another one: identities are used
    again, frames of a living traceback are not.

    Args:
        code: of the engine's function.
        name: the local name under which it keeps the call.
    """
    found: tuple[Call, FrameType] | None = None
    for entry in entries_of(trace):
        frame = entry.tb_frame
        if frame.f_code is code and frame.f_back is not None:
            call = frame.f_locals.get(name)
            # The outer call of one that has failed by the same exception has no glimpse.
            if isinstance(call, list) and len(call) > 3:
                found = call, frame.f_back
    return found


def raised_again(trace: TracebackType | None) -> bool:
    """Whether an exception comes from a ``raise`` statement rather than from a call of C++ or of Python itself."""
    *_, inner = (None, *entries_of(trace))
    if inner is None:
        return False
    code, last = inner.tb_frame.f_code, inner.tb_lasti
    return 0 <= last < len(code.co_code) and dis.opname[code.co_code[last]] in ("RAISE_VARARGS", "RERAISE")


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

    def forget(self) -> None:
        """The call is over. What Python keeps of a warning that it was to ignore was not there without us."""
        registry = vars(graph).get("__warningregistry__", ()) if self.node and not self._view.wanted else ()
        if set(registry) == {"version"}:
            del vars(graph)["__warningregistry__"]
        self.node = ""


class EngineCalls:
    """One for each witness. ``code`` is the function that calls the engine, ``token`` the local name under which it
    keeps each call; None and empty where nothing could be inserted."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._anomaly = witness.anomaly
        self._message = _AnomalyMessage(witness.anomaly)
        self._hints = Hints(witness.torch, witness.anomaly)
        self._filter = ("ignore", self._message, UserWarning, None, 0)
        self.code: CodeType | None = None
        self.token = ""
        self.running: list[Noted] = []
        """The calls under way, the outermost first: a hook may make another."""
        self.latest = -1
        """The event that is the latest call which no other call has made."""
        self.failing: stacks.Stack | None = None
        """The stack that PyTorch has printed first, while a call fails."""

    def watch(self) -> None:
        """Insert our functions."""
        before, after, trouble = self.before, self.after, self._witness.trouble
        if "nan-stop" in self._witness.words:
            before, after, trouble = self.before_or_stop, self.after_or_stop, self._stopped
        calls = {"before": before, "failed": self.failed, "after": after, "gave": self.gave, "trouble": trouble}
        if self._witness.watch(graph, "_engine_run_backward", "backward calls", **calls):
            engine: Any = graph._engine_run_backward
            self.code, self.token = engine.__code__, token_name(engine)

    def _stopped(self, error: BaseException) -> None:
        if isinstance(error, FloatingPointError):
            raise error
        self._witness.trouble(error)

    def before(self, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call begins: note it. What is given back lies in the frame of PyTorch's function until the call is over."""
        with self._witness.modes.left():
            # _engine_run_backward(outputs, grad_outputs, retain_graph, create_graph, inputs, allow_unreachable=…,
            # accumulate_grad=…): backward accumulates, grad does not.
            kind = "backward" if kwargs.get("accumulate_grad", True) else "grad"
            witness = self._witness
            journal = witness.journal
            seen = journal.look[kind](3)  # before < PyTorch's function < backward or grad
            stacks.another_call()
            self._anomaly.again()
            first = root_of(outputs[0]) if outputs else None
            sequence, op, number = -1, "", -1
            top: tuple[str, ...] = ()
            if first is not None:
                sequence, op = first._sequence_nr(), type(first).__name__  # as name(), and at hand
                number = outputs[0].output_nr  # ``unbind``, or a Function that returns a tuple, has several
                top = (op, *[type(n).__name__ for n, _ in first.next_functions])
            early = journal.is_early(seen, top)
            if early:
                remember_modules()
                if witness.learned is not None:
                    witness.learned.met()
            leaves = reaches = None
            if early or witness.looking:
                leaves = leaves_behind(roots_of_call(outputs))
            if leaves is not None:
                journal.living.note(leaves.values())
                reaches = frozenset(leaves)
            known = sequence if sequence < 1 << 62 else -1
            how = (bool(args[1]), bool(args[2])) if len(args) > 2 else (False, False)
            others = other_roots(outputs) if len(outputs) > 1 else ()
            noted = journal.add(kind, seen, -1, (known, op, number, others, how, reaches))
            audit = witness.audit
            if audit is not None:
                audit.calling(noted, outputs, leaves, args)
            witness.finite.root(outputs, noted[0])
            if self._anomaly.wanted:
                self._anomaly.hide_ours(roots_of_call(outputs))
            # Our stacks make PyTorch print a warning about them when backward fails: the user did not ask for it.
            # The list is changed without _filters_mutated(), so no registry of shown warnings is reset.
            warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
            self.latest = noted[0] if not self.running else self.latest
            self.running.append(noted)
            # Lives as long as the call does, which holds the same tensors.
            return [noted, outputs, args]

    def gave(self, call: Call | None, results: Any) -> Any:
        """A call has ended well, and this is what it gives back."""
        audit = self._witness.audit
        if audit is not None and audit.waits and call is not None:
            with self._witness.modes.left():
                audit.gave(call[0], results)
        return results

    def before_or_stop(self, outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same where the program is to be stopped at nan, which is looked for before the call."""
        if self._witness.stopping is None:
            self._witness.stopping = Stopping(self._witness)
            self._witness.undoing += self._witness.stopping.watch()
        with self._witness.quiet():
            self._witness.stopping.before(outputs, roots_of_call(outputs))
        return self.before(outputs, args, kwargs)

    def after_or_stop(self, call: Any) -> None:
        """The call is over, and nan is looked for in what it has made."""
        self.after(call)
        if self._witness.stopping is not None:
            with self._witness.quiet():
                self._witness.stopping.after()

    def failed(self, call: Call | None, error: BaseException) -> None:
        """The engine has raised. The program may catch this, and do so thousands of times: no more than a glance.

        Only the first failure of its kind is examined here. Any other is examined when it has ended the program: the
        exception's own traceback keeps all that is needed for it, as long as anybody keeps the exception.
        """
        if call is None:
            return
        witness = self._witness
        failures = witness.failures
        try:
            witness.journal.failed(call[0])
            if not self._anomaly.wanted:
                self._hints.put_back(error)
            trace = error.__traceback__  # begins in the frame that has caught it
            if trace is not None and came_through(trace.tb_next, self.code):
                return  # an inner call (a custom Function's backward) has seen this very exception already
            failures.last = call[0][0]
            call.append(Glimpse(witness, self.failing, self._message.node))
            if is_ours(error) and failures.is_first(call, error):
                # failed < the function of PyTorch's < who called it
                failures.examine(call, error, _getframe(2), False)
        finally:
            self._message.forget()
            self.failing = None

    def after(self, call: Any) -> None:
        """The call is over, whether it has failed or not."""
        if call is not None:
            self.running.remove(call[0])
            try:
                warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
            except ValueError:
                pass

    def printed(self, stack: stacks.Stack) -> bool:
        """PyTorch prints the stack of the node that failed first; its parents follow and are not it."""
        if self.failing is None:
            self.failing = stack
        if not self._anomaly.wanted and stacks.made_in_backward(stack, self.code):
            stacks.disown(stack)
        return self._anomaly.wanted


# The hint at the end of PyTorch's version error: put back to what it says where the user has no anomaly mode.

_END = "Good luck!"
"""How the hint ends while anomaly mode is on (saved_variable.cpp, unpack)."""


class Hints:
    """Both endings of the message, asked of PyTorch itself: the words differ between versions."""

    def __init__(self, torch: Any, view: UsersView) -> None:
        view.force(True)
        self._ours = _hint(torch)
        view.force(False)
        self._theirs = _hint(torch)
        view.resume()

    def put_back(self, error: BaseException) -> None:
        """Give the exception, and those behind it, the text that they have without us."""
        for e in chain_of(error):
            text = e.args[0] if isinstance(e, RuntimeError) and len(e.args) == 1 else None
            if type(text) is str and text.endswith(_END) and self._ours and text.endswith(self._ours):
                e.args = (text.removesuffix(self._ours) + self._theirs,)


def _hint(torch: Any) -> str:
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros(1, requires_grad=True, device="cpu").exp()
        x.detach().add_(1)
        try:
            x.grad_fn._saved_result  # noqa: B018
        except RuntimeError as e:
            return str(e).partition(" instead. ")[2]
    return ""
