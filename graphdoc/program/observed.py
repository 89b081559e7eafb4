"""The observed program: one object for a run, of which every question is asked and by which each is answered once."""

from __future__ import annotations

from collections import deque
from functools import cached_property

from graphdoc.evidence import (
    Cut,
    Event,
    Evidence,
    Frame,
    Holder,
    Node,
    Optimizer,
    Package,
    Parameter,
    Raised,
    Sign,
    SourceTexts,
)
from graphdoc.messages import Match
from graphdoc.model import Confidence, Span
from graphdoc.program import exception
from graphdoc.program.bad_values import Trouble, trouble_of
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.idle_optimizers import idle_optimizers
from graphdoc.program.loop_owner import driver_of
from graphdoc.program.older_part import older_part
from graphdoc.program.overwrites import Overwrite, overwrite_of
from graphdoc.program.owners import Owners
from graphdoc.program.reuse import Reuse
from graphdoc.program.tensors import Reached, reached


class Program:
    """What is known of one run. Answers are worked out when they are first asked for, from the evidence alone."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    # -- what it is made of ------------------------------------------------------------------------------------------

    @property
    def sources(self) -> SourceTexts:
        """The text of each file of the run."""
        return self.evidence.sources

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the failing graph that matter."""
        return self.evidence.nodes

    @property
    def cuts(self) -> list[Cut]:
        """Where chains of gradients end."""
        return self.evidence.cuts

    @property
    def signs(self) -> list[Sign]:
        """What was seen without an error."""
        return self.evidence.signs

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters and buffers."""
        return self.evidence.parameters

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers."""
        return self.evidence.optimizers

    @property
    def packages(self) -> list[Package]:
        """The installed packages whose code took part."""
        return self.evidence.packages

    def node(self, ident: int) -> Node | None:
        """The node with this id, or None."""
        return self.evidence.node(ident)

    @cached_property
    def tensors(self) -> tuple[Reached, ...]:
        """The tensors that the program could reach when it failed, those near the failure first."""
        return tuple(reached(self.evidence.extras))

    @cached_property
    def holders(self) -> tuple[Holder, ...]:
        """Each way by which the program reached a tensor of an older part of the graph."""
        known = [
            c.tensor for c in (*self.evidence.older_edges, *self.evidence.earlier_edges)
        ] + self.evidence.held_tensors
        return tuple(h for tensor in known for h in tensor.holders)

    @cached_property
    def _cells(self) -> frozenset[str]:
        return frozenset(str(c) for c in self.evidence.extras.get("cells") or ())

    def same_scope(self, a: Frame | Holder, b: Frame) -> bool:
        """Whether two places see the same local names; all cells of a notebook share those of their module."""
        if a.function != b.function:
            return False
        return a.file == b.file or (a.function == "<module>" and {a.file, b.file} <= self._cells)

    def reaches_in(self, holder: Holder, frame: Frame) -> bool:
        """Whether code at a frame reaches what a holder reaches: a name of its scope, an attribute of a global."""
        if self.same_scope(holder, frame):
            return True
        return holder.file == frame.file and holder.function == "<module>" and "." in holder.base

    @cached_property
    def parameters_within(self) -> dict[str, str]:
        """The parameters that the failing function reaches, by how it reaches them; empty where that is not known."""
        within = self.evidence.extras.get("parameters_within")
        return {str(k): str(v) for k, v in within.items()} if isinstance(within, dict) else {}

    def tensor_named(self, path: str) -> Reached | None:
        """The tensor that the program reaches under this very name, or None; that of the failing function, where it is
        known, and none where the name stands for a parameter there.
        """
        named = [t for t in self.tensors if t.path == path] if path else []
        here = self.raised_at.function if self.raised_at is not None else ""
        own = [t for t in named if t.function == here]
        if not own and path in self.parameters_within:
            return None
        return next(iter(own or named), None)

    # -- the exception -----------------------------------------------------------------------------------------------

    @property
    def raised(self) -> Raised | None:
        """The exception that ended the run, or None."""
        return self.evidence.raised

    @cached_property
    def messages(self) -> tuple[Match, ...]:
        """The known messages in the exception, then those of the exceptions behind it."""
        return exception.messages(self.evidence.raised)

    def message(self, *ids: str) -> Match | None:
        """The first of the known messages that is one of these, with its named fields; or None."""
        return next((m for m in self.messages if {m.id, *m.also} & {*ids}), None)

    def field(self, name: str, *ids: str) -> str:
        """A named field of the first of these messages that has it; empty where none does."""
        found = (m.fields.get(name, "") for m in self.messages if {m.id, *m.also} & {*ids})
        return next((text for text in found if text), "")

    @cached_property
    def first_line(self) -> str:
        """The first line of the exception's text, for a fact."""
        return exception.first_line(self.evidence.message)

    @cached_property
    def met_none(self) -> bool:
        """Whether Python itself complained of a None where a tensor was expected."""
        return exception.met_none(self.evidence.message)

    @cached_property
    def raised_at(self) -> Frame | None:
        """The innermost frame of the user's code in the traceback."""
        return exception.raised_at(self.evidence.raised)

    @property
    def raised_in_forward(self) -> bool:
        """Whether a module was computing its output when the exception was raised."""
        frames = self.evidence.raised.stack if self.evidence.raised is not None else []
        return any(_of_module(f) for f in frames)

    @property
    def raised_in_module(self) -> bool:
        """Whether ``nn.Module`` itself raised it, for one of the tensors that the module holds."""
        frames = self.evidence.raised.stack if self.evidence.raised is not None else []
        return bool(frames) and _of_module(frames[-1])

    def raised_span(self, label: str) -> tuple[Span, ...]:
        """Where the exception was noticed, as a span with role ``failed``; empty where there is no traceback."""
        return exception.raised_span(self.sources, self.evidence.raised, label)

    def weight(self, strength: float, confidence: Confidence) -> tuple[float, Confidence]:
        """What a message proves: ``strength`` where this very run raised it, less where it was only pasted."""
        return exception.weight(self.evidence.from_text, strength, confidence)

    # -- its calls ---------------------------------------------------------------------------------------------------

    @cached_property
    def owners(self) -> Owners:
        """Which optimizer holds which parameter."""
        return Owners(self.evidence.optimizers)

    @cached_property
    def never_stepped(self) -> frozenset[int]:
        """Optimizers that have not stepped, and that no line of the program can mean."""
        return idle_optimizers(self.evidence.sources, self.evidence.events, self.evidence.optimizers)

    @cached_property
    def journal(self) -> Journal:
        """The calls of the run in order."""
        return Journal(self.evidence.events, self.owners, self.evidence.sources)

    @cached_property
    def failing(self) -> Event | None:
        """The backward or grad call that failed, or None where none is known."""
        return self.evidence.failing_call

    @cached_property
    def before_failure(self) -> list[Event]:
        """The journal up to the call that failed, oldest first."""
        return exception.events_before_failure(self.evidence.events, self.failing)

    @cached_property
    def driver(self) -> Frame | None:
        """The user's line below which a package ran both the forward pass and its backward, or None.

        What stands there is done once for all batches: it is the place of nothing that one batch does.
        """
        return driver_of(self.evidence)

    # -- what went wrong ---------------------------------------------------------------------------------------------

    @cached_property
    def trained(self) -> frozenset[str] | None:
        """The parameters that the failing call is meant to give gradient to; None where that is not known.

        Those of the optimizers that it works for; where none is known to, those of the optimizers that own what it
        reaches without any older part. ``autograd.grad`` gives it to what it was asked for, too.
        """
        if self.failing is None:
            return None
        names = self.owners.parameters(self.journal.works_for(self.failing))
        names = names or self.owners.parameters(self.owners.holding(self.evidence.fresh_reaches))
        if self.failing.kind == "grad" and names:
            names = names | {n for n in self.evidence.extras.get("asked") or () if self.evidence.parameter(n)}
        return frozenset(names) or None

    @cached_property
    def reuse(self) -> Reuse | None:
        """The older part of a graph that the failing call ran into; None where no edge into one was seen."""
        return older_part(self.evidence, self.journal, self.failing, self.trained)

    @cached_property
    def trouble(self) -> Trouble | None:
        """How the first value that is not finite came about, where the second run has found that."""
        return trouble_of(self.signs, self.sources, self.raised, self.packages)

    @cached_property
    def overwrite(self) -> Overwrite | None:
        """The tensor that was written between its forward and this backward; None where the error is another."""
        return overwrite_of(self.evidence, self.journal, self.failing, self.reuse, self.trained)


KEPT = 4
_recent: deque[Program] = deque(maxlen=KEPT)


def program_of(evidence: Evidence) -> Program:
    """The one Program of this evidence; the last few are kept."""
    found = next((p for p in _recent if p.evidence is evidence), None)
    if found is None:
        found = Program(evidence)
        _recent.append(found)
    return found


def _of_module(frame: Frame) -> bool:
    return frame.file.replace("\\", "/").endswith("torch/nn/modules/module.py")
