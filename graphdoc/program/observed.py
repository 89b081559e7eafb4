"""The observed program: one object of which every question about a run is asked, and the older part of its graph."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from graphdoc.evidence import (
    Cut,
    Event,
    Evidence,
    Frame,
    Holder,
    Node,
    OlderEdge,
    Raised,
    Sign,
    SourceTexts,
    Stale,
    Step,
    Tensor,
)
from graphdoc.messages import Match
from graphdoc.model import Confidence, Span
from graphdoc.program import exception
from graphdoc.program.bad_values import Trouble, trouble_of
from graphdoc.program.bindings import expression_at, frame_of, function_at, source_at, tree
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal
from graphdoc.program.carried_names import carried
from graphdoc.program.container_entries import kept_name, statements_at, user_frames
from graphdoc.program.exception import SECOND_TIME, VERSION, message_of
from graphdoc.program.optimizer_places import Owners, by_own_names, idle_optimizers
from graphdoc.program.overwrites import Overwrite, overwrite_of
from graphdoc.program.reuse import Reuse
from graphdoc.program.rounds import of_this_round
from graphdoc.program.spans import (
    Reached,
    driver_of,
    frames,
    in_function,
    innermost,
    innermost_user,
    node_loop_of,
    reached,
)
from graphdoc.program.written_out import without_helpers
from graphdoc.source.module import each
from graphdoc.source.paths import called, covers, is_read, last_word, only, pairs, same, without_subscripts

# What a round makes of its values behind the backward call, and keeps for the next one under another name.


def kept_behind_call(run: Evidence, carry: OlderEdge, failing: Event | None) -> OlderEdge:
    """The edge as it is; where the round of the earlier call itself took the value up (``memory = tanh(out)`` behind
    ``backward()``), that of the name, attribute or entry which goes on to the next round instead, with no node that
    takes it up there."""
    taking = run.node(carry.consumer)
    calls = user_frames(failing.stack) if failing is not None and taking is not None else []
    met = ((f, in_function(taking.stack, f)) for f in calls if taking is not None)
    call, at = next((pair for pair in met if pair[1] is not None), (None, None))
    if taking is None or call is None or at is None or at.line <= call.line:
        return carry
    alone = in_function(taking.stack[::-1], call) is at
    within = [f for f in taking.stack[taking.stack.index(at) :] if f.user and alone]
    holder = next((h for f in within if (h := _goes_on(run.sources, f, call, at)) is not None), None)
    if holder is None or any(kept_name(h) == kept_name(holder) for h in carry.tensor.holders):
        return carry
    kept = Tensor("activation", holder.path, taking.shape, holders=[holder])
    return replace(carry, producer=taking.id, consumer=-1, tensor=kept)


def _goes_on(sources: SourceTexts, frame: Frame, call: Frame, at: Frame) -> Holder | None:
    """What the statement at a frame binds, where the next round reads it: a name in the loop around the call and before
    it, an attribute or an entry in any code but what follows the call at once. ``at`` is the line behind the call."""
    statement = next(iter(statements_at(sources, frame)[-1:]), None)
    bound = pairs(statement) if isinstance(statement, ast.Assign) else []
    bound = [(t, v) for t, v in bound if not isinstance(t, ast.Tuple | ast.List)]
    spot = (frame.line, frame.column)
    here = [(t, v) for t, v in bound if any((n.lineno, n.col_offset + 1) == spot for n in each(v, ast.expr))]
    target, value = only(bound) or only(here) or (None, None)
    loop = node_loop_of(sources, call)
    steps = _steps(target) if target is not None else []
    # ``state = cell(x, state)``: what is taken up is cut, and what comes out of the cell trains it.
    itself = any(target is not None and same(n, target) for n in each(value, ast.expr))
    if target is None or not steps or itself or (loop is not None and not covers(loop, at.line)):
        return None
    word = last_word(without_subscripts(target))
    in_loop = frame is at and loop is not None and any(n.lineno <= call.line for n in _reads(loop, word))
    if not (in_loop if len(steps) == 1 else _is_read_elsewhere(sources, word, call, loop)):
        return None
    base = ast.unparse(without_subscripts(target))
    structure = "tensor" if all(s.kind in ("name", "attribute") for s in steps) else None
    return Holder(ast.unparse(target), frame.function, frame.file, steps, True, base, structure)


def _steps(target: ast.expr) -> list[Step]:
    """The way to what a target binds: names, attributes and entries under a constant; empty for another target."""
    if isinstance(target, ast.Name):
        return [Step("name", target.id, "Tensor")]
    if isinstance(target, ast.Attribute):
        before, step = _steps(target.value), Step("attribute", target.attr, "Tensor")
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        named = isinstance(target.slice.value, str)
        before, step = _steps(target.value), Step("key" if named else "index", ast.unparse(target.slice), "Tensor")
    else:
        return []
    return [*(replace(s, type="") for s in before), step] if before else []


def _reads(root: ast.AST, word: str) -> Iterator[ast.Name | ast.Attribute]:
    """Where a name, or an attribute of this name, is read."""
    for n in each(root, ast.Name, ast.Attribute):
        if is_read(n) and last_word(n) == word:
            yield n


def _is_read_elsewhere(sources: SourceTexts, word: str, call: Frame, loop: ast.stmt | None) -> bool:
    """Whether any code of the program reads this, other than what follows the call in its loop or function."""
    around = loop or function_at(sources, call)
    last = (around.end_lineno or around.lineno) if around is not None else 0
    found = ((file, n) for file in sources for n in _reads(tree(sources, file), word) if around is not None)
    return any(file != call.file or not call.line < n.lineno <= last for file, n in found)


# Whether a call ran into an older part of its graph at all: which edges lead there, and which call has used it.


def older_part(
    evidence: Evidence, journal: Journal, failing: Event | None, meant: frozenset[str] | None
) -> Reuse | None:
    """The older part behind the failing call, or None where no edge into one was seen, or where the call failed of
    something else and all of its graph was whole: an earlier call on the same root had kept it."""
    if not _was_used(evidence.raised, evidence.nodes, evidence.older_edges):
        return None

    def this_round(carry: OlderEdge) -> bool:
        """Whether the value was made for this very call, in the rounds of a loop before it, and only stepped over."""
        made = evidence.node(carry.producer)
        if made is None or failing is None or _was_kept(evidence.events, journal, made.sequence, set(carry.behind)):
            return False
        return of_this_round(evidence, evidence.failing_node, failing, made)

    shared = evidence.extras.get("shared_with") or {}
    earlier = journal.earlier(failing) if failing is not None else None
    by_write = _is_value_written(evidence.failing_node, evidence.stale)
    edges = [
        kept_behind_call(evidence, c, failing)
        for c in evidence.older_edges
        if c.dead and not (by_write and _surely_unused(journal, failing, evidence.node(c.producer), c))
        if not this_round(c)
    ]
    carries = carried(evidence, edges)
    if shared.get("same_root") or earlier is not None:
        freeing = evidence.event(shared["event"]) if shared else earlier
        return Reuse(evidence, journal, failing, freeing, carries, meant)
    if not evidence.older_edges and shared:
        # All of this loss is a part of an earlier one: nothing leads from it into an older part, but from that loss.
        inside = [c for c in evidence.earlier_edges if c.dead and c.producer == evidence.root]
        if inside:
            return Reuse(evidence, journal, failing, evidence.event(shared["event"]), carried(evidence, inside), meant)
    if not carries or any(c.apart for c in carries):
        return None  # which part is the older one is not known between threads
    freed = next((c.freed_by for c in carries if c.freed_by >= 0), -1)
    return Reuse(evidence, journal, failing, evidence.event(freed), carries, meant)


def _was_used(raised: Raised | None, nodes: list[Node], edges: list[OlderEdge]) -> bool:
    """Whether the error is one of a graph that was used up or written into, or a part of the graph is."""
    known = message_of(raised, *SECOND_TIME, *VERSION) is not None or raised is None or not raised.message
    return known or any(n.state != "live" for n in nodes) or any(c.dead for c in edges)


def _was_kept(events: list[Event], journal: Journal, made: int, behind: set[str]) -> bool:
    """Whether a call with ``retain_graph=True`` can have walked what was made at this number, and left it whole.

    One whose gradients are differentiated again (``create_graph=True``) belongs to the loss that does so.
    """
    calls = (e for e in events if e.kind in DIFFERENTIATING and e.sequence > made and not e.failed)
    kept = (e for e in calls if e.retain_graph and not e.create_graph)
    return any(not (known := set(journal.reaches(e))) or bool(known & behind) for e in kept)


def _is_value_written(met: Node | None, stale: list[Stale]) -> bool:
    """Whether backward met a value that was written into; of a parameter it was a step that made the part old."""
    of_parameters = (s.node for s in stale if s.tensor.kind == "parameter")
    return met is not None and met.state == "stale" and met.id not in of_parameters


def _surely_unused(journal: Journal, failing: Event | None, producer: Node | None, carry: OlderEdge) -> bool:
    """Whether no earlier call has used what lies behind an edge, which is there by age alone where a value was written
    into: what each call since its making reached is known, and is none of it.

    A discriminator that learned from detached images: its call came after them, and never went near their graph.
    """
    if producer is None or failing is None or not carry.behind:
        return False
    first = journal.events[0]
    if (first.index and first.sequence > producer.sequence) or not journal.is_complete(first, failing):
        return False  # a call may have fallen out of the journal
    calls = [e for e in journal.events if e.kind in DIFFERENTIATING and e.index < failing.index]
    behind = set(carry.behind)
    return all(e.reaches and not behind & set(e.reaches) for e in calls if e.sequence > producer.sequence)


_CONVERSIONS = ("numpy", "tolist", "item")
_TURNED: dict[type[ast.cmpop], str] = {ast.Gt: "gt", ast.Lt: "lt", ast.GtE: "ge", ast.LtE: "le"}


def _as_written(sources: SourceTexts, cut: Cut) -> Cut:
    """The cut as what it is made for: ``x.detach().cpu().numpy()`` takes the numbers of ``x``, and nothing else has the
    detached tensor. And the operator of the source: of ``x > parameter`` Python calls the ``<`` of the parameter."""
    at = innermost(cut.stack)
    node = expression_at(sources, at) if cut.reason in ("detach", "nondifferentiable") else None
    if isinstance(node, ast.Compare) and cut.op.strip("_") in _TURNED.values():
        return replace(cut, op=_TURNED.get(type(node.ops[0]), cut.op))
    call = source_at(sources, at).node_method_of(node) if node is not None else None
    if call is not None and call.func.attr == "cpu":
        call = source_at(sources, at).node_method_of(call)
    if at is None or call is None or cut.reason != "detach" or call.func.attr not in _CONVERSIONS:
        return cut
    stack = [frame_of(sources, at.file, call, at.function) if f is at else f for f in cut.stack]
    return replace(cut, reason="conversion", op=call.func.attr, stack=stack)


def _of_callers(sources: SourceTexts, sign: Sign) -> Sign:
    """A sign of the calls that the program's own text makes, also where a function of its own only passes them on."""
    stack, other = without_helpers(sources, sign.stack), without_helpers(sources, sign.other)
    stacks = {name: frames(value) for name, value in sign.facts.items() if isinstance(value, list)}
    shorter = {name: without_helpers(sources, s) for name, s in stacks.items()}
    facts = {name: list(map(vars, shorter[name])) for name, s in stacks.items() if len(shorter[name]) < len(s)}
    changed = facts or (stack, other) != (sign.stack, sign.other)
    return replace(sign, stack=stack, other=other, facts={**sign.facts, **facts}) if changed else sign


# The observed program: one object for a run, of which every question is asked and by which each is answered once.


class Program:
    """What is known of one run. Answers are worked out when they are first asked for, from the evidence alone."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.sources = evidence, evidence.sources
        self.nodes = evidence.nodes
        """The nodes of the failing graph that matter."""
        self.cuts = [_as_written(self.sources, cut) for cut in evidence.cuts]
        """Where chains of gradients end."""
        self.signs = [_of_callers(self.sources, sign) for sign in evidence.signs]
        """What was seen without an error."""
        self.parameters, self.packages = evidence.parameters, evidence.packages
        self.names = [p.name for p in self.parameters]
        """The names of all parameters and buffers."""
        self.optimizers = by_own_names(evidence.sources, evidence.optimizers)

    # -- what it is made of ------------------------------------------------------------------------------------------

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
        one_file = a.file == b.file or (a.function == "<module>" and {a.file, b.file} <= self._cells)
        return a.function == b.function and one_file

    def reaches_in(self, holder: Holder, frame: Frame) -> bool:
        """Whether code at a frame reaches what a holder reaches: a name of its scope, an attribute of a global."""
        of_global = holder.file == frame.file and holder.function == "<module>" and "." in holder.base
        return of_global or self.same_scope(holder, frame)

    @cached_property
    def parameters_within(self) -> dict[str, str]:
        """The parameters that the failing function reaches, by how it reaches them; empty where that is not known."""
        within = self.evidence.extras.get("parameters_within")
        return {str(k): str(v) for k, v in within.items()} if isinstance(within, dict) else {}

    def behind_result(self, name: str) -> list[str]:
        """The parameters behind a result that the failing function has under this name; empty where not known."""
        found = self.evidence.extras.get("behind_results")
        return [str(n) for n in found.get(name, ())] if isinstance(found, dict) else []

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

    @property
    def raised_stack(self) -> list[Frame]:
        """The frames through which that exception went; none where there was no exception."""
        return self.raised.stack if self.raised is not None else []

    @cached_property
    def messages(self) -> tuple[Match, ...]:
        """The known messages in the exception, then those of the exceptions behind it."""
        return exception.messages(self.evidence.raised)

    def message(self, *ids: str) -> Match | None:
        """The first of the known messages that is one of these, with its named fields; or None."""
        return message_of(self.raised, *ids)

    def raised_in(self, file: str) -> bool:
        """Whether the exception went through a file whose path has this in it."""
        return any(file in f.file.replace("\\", "/") for f in self.raised_stack)

    def field(self, name: str, *ids: str) -> str:
        """A named field of the first of these messages that has it; empty where none does."""
        return exception.field_of(self.raised, name, *ids)

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
        """The innermost frame of the user's code in the traceback, or in the trace of a function that was compiled."""
        return exception.raised_at(self.evidence.raised, self.sources)

    @property
    def raised_in_forward(self) -> bool:
        """Whether a module was computing its output when the exception was raised."""
        return any(_of_module(f) for f in self.raised_stack)

    @property
    def raised_in_module(self) -> bool:
        """Whether ``nn.Module`` itself raised it, for one of the tensors that the module holds."""
        return any(_of_module(f) for f in self.raised_stack[-1:])

    def raised_span(self, label: str) -> tuple[Span, ...]:
        """Where the exception was noticed, as a span with role ``failed``; empty where there is no traceback."""
        return exception.raised_span(self.evidence.raised, label)

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
        return idle_optimizers(self.evidence.sources, self.evidence.events, self.optimizers)

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
    if not any(p.evidence is evidence for p in _recent):
        _recent.append(Program(evidence))
    return next(p for p in _recent if p.evidence is evidence)


def _of_module(frame: Frame) -> bool:
    return frame.file.replace("\\", "/").endswith("torch/nn/modules/module.py")


# What another optimizer's loss has left in the gradients that the step behind the failing call would take, too.


@dataclass(frozen=True)
class Leftover:
    """An optimizer that steps with the failing call's gradient, and the latest earlier call that has given its
    parameters one for another optimizer's step, which nobody has cleared since."""

    optimizer: int
    call: Event


def leftovers(program: Program) -> tuple[Leftover, ...]:
    """One for each optimizer that the failing call works for and that would step with the sum; none where a call that
    works for the same optimizer is part of the sum, for then it is meant to add up, or where any of it is not known.
    """
    failing = program.failing
    own = program.journal.works_for(failing) if failing is not None and failing.kind == "backward" else frozenset()
    found = (_leftover(program, failing, own, ident) for ident in sorted(own) if failing is not None)
    return tuple(f for f in found if f is not None)


def _leftover(program: Program, failing: Event, own: frozenset[int], ident: int) -> Leftover | None:
    journal, held = program.journal, program.owners.parameters([ident])
    before = [e for e in journal.events if e.index < failing.index]
    cleared = max((e.index for e in before if e.kind == "zero_grad" and e.optimizer == ident), default=-1)
    stepped = max((e.index for e in before if e.kind == "step" and e.optimizer == ident), default=-1)
    since = [e for e in before if e.index > cleared]
    if failing.index - cleared != len(since) + 1:
        return None  # the journal has a gap there
    shared = held & set(journal.reaches(failing))
    calls = [e for e in since if e.kind == "backward" and not e.failed and shared & set(journal.reaches(e))]
    last = calls[-1] if calls else None
    if last is None or last.index < stepped:
        return None
    if not all(_for_others(program, e, own) for e in calls if e.index > stepped):
        return None
    reached = shared & set(journal.reaches(last))
    filled = {p.name for p in program.parameters if p.grad == "present"}
    cleared_by_hand = _cleared_by_module(program.sources, last, failing, before)
    return Leftover(ident, last) if reached <= filled and not cleared_by_hand else None


def _for_others(program: Program, call: Event, own: frozenset[int]) -> bool:
    """Whether a call works for optimizers that hold something it reaches, and for none of ``own``."""
    works = program.journal.works_for(call)
    return not own & works and bool(program.owners.parameters(works) & set(program.journal.reaches(call)))


def _cleared_by_module(sources: SourceTexts, call: Event, failing: Event, before: list[Event]) -> bool:
    """Whether a ``zero_grad()`` that was none of an optimizer's stands between the two calls in one function."""
    first, second = innermost_user(call.stack), innermost_user(failing.stack)
    if first is None or second is None or not first.in_function_of(second):
        return False
    known = {f.line for e in before if e.kind == "zero_grad" and (f := innermost_user(e.stack)) is not None}
    clears = (n.lineno for n in each(tree(sources, first.file), ast.Attribute) if n.attr == "zero_grad")
    return any(first.line < line < second.line for line in clears if line not in known)


# Rounds of one step: a loop that calls backward in each of its rounds, and behind which the optimizer steps once.


def of_one_step(program: Program, reuse: Reuse) -> bool:
    """Whether both calls are of one step, and the loop that makes them leaves off before it: nothing in it steps or
    clears a gradient.

    A loop that steps in some of its rounds goes on with what it carries behind the step as well.
    """
    failing = reuse.failing if reuse.same_line and reuse.one_step else None
    # An object keeps it behind the loop as well.
    kept = any(s.kind == "attribute" for c in reuse.carries for h in c.tensor.holders for s in h.steps)
    if failing is None or reuse.journal.zeroed_before(failing) or kept:
        return False
    loops = ((f, node_loop_of(program.sources, f)) for f in user_frames(failing.stack))
    frame, loop = next((pair for pair in loops if pair[1] is not None), (None, None))
    ends = [e for e in program.evidence.events if e.kind in ("step", "zero_grad")]
    seen = any(f.in_function_of(frame) and covers(loop, f.line) for e in ends for f in e.stack if frame and loop)
    names = {called(n) for n in each(loop, ast.Call)}
    return loop is not None and not seen and not any(name == "step" or "zero_grad" in name for name in names)
