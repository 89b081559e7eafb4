"""What the version counters tell: which saved tensors were written, by whom, and whose business that is.

Shared by the causes of GD2. A cause asks ``analyse`` and answers only when ``cause`` is its own slug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from graphdoc.evidence import Event, Evidence, Frame, Node, Stale, Write
from graphdoc.program.exception import VERSION, message_of
from graphdoc.program.in_place_writes import Target, in_loop, target_of
from graphdoc.program.observed import program_of
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user
from graphdoc.program.step_closures import is_around, is_optimizers, own_step
from graphdoc.program.version_counts import accounted


@dataclass(frozen=True)
class Writer:
    """One place that wrote. ``frame`` is the user's line; ``op`` how the write is called (``Adam.step()``, ``add_``).

    ``by`` is "optimizer", "load" (``load_state_dict``), "library" (inside what the line calls) or "line" itself;
    ``stale`` is the first tensor that it is known to have written.
    """

    op: str
    frame: Frame | None
    stack: tuple[Frame, ...]
    by: str
    count: int
    version: int
    grad_mode: bool
    event: Event | None
    stale: Stale | None = None


@dataclass
class Mutation:
    """Why a version did not fit. ``stale`` is what backward met first, ``stales`` all of that cause, newest first.

    ``exact``: the known writers account for every step of the counter. ``target``: what the first write goes into.
    ``behind``: parameters behind the stale parts; ``meant``: those that the failing loss is meant to train.
    """

    cause: str
    stale: Stale
    node: Node
    stales: list[Stale]
    writers: list[Writer]
    exact: bool
    target: Target
    failing: Event | None
    reuse: Reuse | None
    behind: set[str] = field(default_factory=set)
    meant: set[str] = field(default_factory=set)
    meant_known: bool = False

    @property
    def own(self) -> set[str]:
        """Parameters behind the stale parts that the failing loss is meant to train."""
        return self.behind & self.meant

    @property
    def constant(self) -> bool:
        """Whether the failing loss is surely not meant to train anything behind the stale parts."""
        return self.meant_known and bool(self.behind) and not self.own


def analyse(evidence: Evidence) -> Mutation | None:
    """Explain a version error from the graph; None where it is another error or nothing stale was seen."""
    cached = vars(evidence).get("_mutation", False)
    if cached is False:
        cached = _analyse(evidence)
        vars(evidence)["_mutation"] = cached
    return cached  # type: ignore[no-any-return]


def _analyse(evidence: Evidence) -> Mutation | None:
    if message_of(evidence, *VERSION) is None:
        return None
    known = [s for s in evidence.stale if evidence.node(s.node) is not None]
    if not known:
        return None
    first = next((s for s in known if s.node == evidence.failing), known[0])
    node = evidence.node(first.node)
    assert node is not None
    kind = _kind(first)
    alike = [s for s in known if _kind(s) == kind]
    alike.sort(key=lambda s: s is not first)
    writers = _writers(evidence, alike)
    own = _writers(evidence, [first])
    program = program_of(evidence)
    failing = program.failing
    mutation = Mutation(
        "",
        first,
        node,
        alike,
        writers,
        accounted(first),
        target_of(evidence, own[0].frame) if own else Target(),
        failing,
        program.reuse,
    )
    mutation.behind = {n for s in alike for n in s.behind}
    mutation.meant, mutation.meant_known = set(program.trained or ()), program.trained is not None
    mutation.cause = _cause(evidence, mutation, own)
    return mutation


def _kind(stale: Stale) -> str:
    tensor = stale.tensor
    if tensor.kind == "parameter" or (tensor.kind == "leaf" and tensor.requires_grad):
        return "parameter"
    if tensor.kind in ("buffer", "input"):
        return tensor.kind
    result = stale.output or stale.attribute.startswith(("_saved_result", "_saved_output"))
    # A result is saved without its own history; an argument without one is plain data.
    return "activation" if result or tensor.requires_grad else "input"


def _cause(evidence: Evidence, found: Mutation, own: list[Writer]) -> str:
    kind = _kind(found.stale)
    first = own[0] if own else None
    if kind == "parameter":
        if first is not None and first.by != "optimizer":
            return "parameter-overwritten"
        if first is None and not found.stale.tensor.owners:
            return "parameter-overwritten"
        return "retain-graph-cover-up" if covered_up(evidence, found) else "optimizer-step-before-backward"
    if kind == "buffer":
        return "buffer-updated-in-place"
    if kind == "input":
        silent = first is not None and not first.grad_mode
        if found.target.kept or silent or (found.target.path and not found.target.local):
            return "buffer-updated-in-place"
        held = any(s.kind == "attribute" for h in found.stale.tensor.holders for s in h.steps)
        if not found.target.path and held:
            return "buffer-updated-in-place"
    if kind == "activation" and found.target.kept:
        return "state-overwritten-in-place"
    if _repeated(found) and any(w.by == "line" for w in own):
        looped = found.target.sliced and any(in_loop(evidence, w.frame) for w in own)
        if looped or (found.target.path and not found.target.local and not found.target.parameter):
            return "state-overwritten-in-place"
    return "inplace-on-saved-activation"


def _repeated(found: Mutation) -> bool:
    """Whether one place wrote the same tensor more than once since some part of it was saved."""
    for stale in found.stales:
        times: dict[object, int] = {}
        for w in stale.writes:
            at = innermost_user(w.stack)
            key = (at.file, at.line) if at else None
            times[key] = times.get(key, 0) + w.count
        if any(n > 1 for n in times.values()):
            return True
    return False


def covered_up(evidence: Evidence, found: Mutation) -> bool:
    """Whether an earlier call walked the stale part with ``retain_graph=True``, and it should not be in this graph.

    Without the flag the call would have freed it, and the error would have been the other one. The part does not
    belong here if it was carried over from before that call, or if this loss is not meant to train any of it.
    """
    carried = found.reuse is not None and bool(found.reuse.carries)
    return (carried or found.constant) and bool(keeping_calls(evidence, found))


def keeping_calls(evidence: Evidence, found: Mutation) -> list[Event]:
    """The earlier calls with ``retain_graph=True`` that can have walked the stale part."""
    failing = found.failing
    out = []
    for e in evidence.events:
        if e.kind not in ("backward", "grad") or not e.retain_graph or e.failed:
            continue
        if failing is not None and e.index >= failing.index:
            continue
        # The root is newer than what it walks over, and the call is newer than both.
        if e.sequence <= found.node.sequence or 0 <= e.root < found.node.sequence:
            continue
        reached = set(program_of(evidence).journal.reaches(e))
        behind = {n for n in found.stale.behind if not n.startswith("<")}
        if reached and behind and not behind <= reached:
            continue
        out.append(e)
    return out


# -- who wrote ---------------------------------------------------------------------------------------------------


def _writers(evidence: Evidence, stales: Sequence[Stale]) -> list[Writer]:
    """The distinct places that wrote, those of the first stale tensor first, each set in the order of the writes."""
    out: list[Writer] = []
    seen: set[tuple[object, ...]] = set()
    for stale in stales:
        for w in sorted(stale.writes, key=lambda w: w.version):
            writer = writer_of(evidence, w)
            at = writer.frame
            key = (at.file, at.line, at.column, writer.by) if at else (writer.op,)
            if key not in seen:
                seen.add(key)
                out.append(replace(writer, stale=stale))
    return out


def writer_of(evidence: Evidence, write: Write) -> Writer:
    """A write of the evidence with the user's line, and whether an optimizer or a library did it there."""
    stack = write.stack
    if write.op.endswith(".step") or (at := own_step(evidence, stack)) >= 0:
        # An optimizer of the user's own steps inside PyTorch's wrapper: its caller is the line to show.
        outside = stack if write.op.endswith(".step") else stack[:at]
        frame = innermost_user(outside) or innermost_user(stack)
        op = write.op if write.op.endswith(".step") else _optimizer_type(evidence, stack, frame)
        return _writer(evidence, write, f"{op}()", frame, "optimizer")
    frame = innermost_user(stack)
    functions = [f.function for f in stack if not f.user]
    if any("load_state_dict" in f for f in functions):
        return _writer(evidence, write, "load_state_dict()", frame, "load")
    inside = bool(stack) and frame is not None and any(_does_work(f) for f in stack[stack.index(frame) + 1 :])
    return _writer(evidence, write, write.op, frame, "library" if inside else "line")


def _does_work(frame: Frame) -> bool:
    """Whether a library's frame is more than what PyTorch puts around every operator in a second run."""
    return not frame.user and not is_around(frame)


def _optimizer_type(evidence: Evidence, stack: Sequence[Frame], frame: Frame | None) -> str:
    named = next((f.function for f in reversed(stack) if is_optimizers(f) and f.function.endswith(".step")), "")
    event = _step_at(evidence, frame)
    known = evidence.optimizer(event.optimizer) if event is not None else None
    return f"{known.type}.step" if known is not None else named or "Optimizer.step"


def _step_at(evidence: Evidence, frame: Frame | None) -> Event | None:
    for e in reversed(evidence.events):
        at = innermost_user(e.stack) if e.kind == "step" else None
        if at is None or frame is None:
            continue
        if (at.file, at.line, at.column) == (frame.file, frame.line, frame.column):
            return e
    return None


def _writer(evidence: Evidence, write: Write, op: str, frame: Frame | None, by: str) -> Writer:
    event = evidence.event(write.event) if write.event >= 0 else None
    if by == "optimizer" and event is None:
        event = _step_at(evidence, frame)
    return Writer(op, frame, tuple(write.stack), by, write.count, write.version, write.grad_mode, event)
