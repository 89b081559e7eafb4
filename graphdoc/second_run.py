"""What the evidence of a second run takes over from the first, and what may be told where steps were not recorded."""

from __future__ import annotations

from graphdoc.evidence import AS_IF, LEARNED, SO_FAR, THINNED, Event, Evidence, Sign, Stale
from graphdoc.messages.log import Failure
from graphdoc.messages.reading import evidence_from
from graphdoc.messages.recognise import recognise_exception

# What the second run's takes over from the first, which was looked at less closely and not changed.


def take_over(first: Evidence, second: Evidence, mode: str) -> Evidence:
    """The second run's, which was one in this mode, with what the first one's calls reached and the versions of what
    was overwritten."""
    second.probe = second.probe or mode
    _remember_reach(first.events, second.events)
    _remember_versions(first.stale, second.stale)
    return second


def add_later(first: Evidence, second: Evidence, whole: bool) -> None:
    """The signs of the first run and what they speak of, which a second one that was ended early has not come to; and
    of that one only what the first had no means to see: a later step may contradict what was so until then. What both
    tell is told as the first saw it, which nothing held up; so is what was not finite."""
    told = [_told(s) for s in first.signs]
    seen = [s for s in second.signs if s.kind != "nonfinite" and (whole or SO_FAR not in s.facts)]
    second.signs = [s for s in seen if _told(s) not in told]
    second.signs += [s for s in first.signs if s.kind != THINNED]
    second.sources = {**first.sources, **second.sources}
    ids, names = {o.id for o in second.optimizers}, {p.name for p in second.parameters}
    second.optimizers += [o for o in first.optimizers if o.id not in ids]
    second.parameters += [p for p in first.parameters if p.name not in names]


def _told(sign: Sign) -> tuple[object, ...]:
    """What a sign is about; what else it names, the other call and its leaves, is what was seen of it."""
    at = [(f.file, f.line, f.column) for f in sign.stack]
    return sign.kind, sign.optimizer, sign.parameters, sign.facts.keys() - {SO_FAR}, at


def take_look(first: Evidence, second: Evidence, mode: str) -> bool:
    """Put what the second run, one in this mode, saw of the first bad value into the first one's sign; whether
    it saw anything."""
    sign, look = nonfinite(first.signs), look_of(second.signs)
    if sign is None or look is None:
        return False
    sign.facts["look"] = look
    first.sources = {**second.sources, **first.sources}
    first.hashes = {**second.hashes, **first.hashes}
    first.packages += [p for p in second.packages if p.name not in {q.name for q in first.packages}]
    first.probe = mode
    return True


def nonfinite(signs: list[Sign]) -> Sign | None:
    """The sign of values that are not finite, if there is one."""
    return next((s for s in signs if s.kind == "nonfinite"), None)


def look_of(signs: list[Sign]) -> object:
    """What a second run saw of the first bad value; None where it saw nothing."""
    sign = nonfinite(signs)
    return sign.facts.get("look") if sign is not None else None


def _remember_reach(first: list[Event], second: list[Event]) -> None:
    """What the calls of the first run reached, where the second, which looks at more, has looked at fewer calls."""
    if [(e.index, e.kind) for e in first] != [(e.index, e.kind) for e in second]:
        return
    for old, new in zip(first, second, strict=True):
        new.reaches = new.reaches or old.reaches


def _remember_versions(first: list[Stale], second: list[Stale]) -> None:
    """The versions of the first run, which are those of PyTorch's message: in the second, which keeps more, a counter
    may have begun elsewhere."""
    for old, new in zip(first, second, strict=False):
        moved = old.expected - new.expected
        if (old.attribute, old.tensor.name) != (new.attribute, new.tensor.name) or old.current - new.current != moved:
            return
        new.expected, new.current = old.expected, old.current
        for write in new.writes:
            write.version += moved if write.version >= 0 else 0


# What may be told of a run in which steps were not recorded (``--capture learned``): words and calls, no graph.

_NOT_RECORDED = (
    "steps after step {since} were not recorded (--capture learned), so lines that made the graph are not told; "
    "`graphdoc run --capture full` records them"
)
_NOT_IN_FULL = "steps after step {since} that were like those before were not recorded (--capture learned)"
_SEEN = ("process", "command", "capture", "exit_status", "seconds", "warnings", "sources", "hashes", "packages")
"""Parts of the Evidence that rest on no graph."""
SEEN_AGAIN = "the run itself did not record this step (--capture learned): what is told was seen in a second run"


def needs_record(evidence: Evidence) -> bool:
    """Whether a run that records each step would tell more of what ``as_told`` has left."""
    return evidence.from_text and THINNED in evidence.extras


def full_mode(mode: str, begin: str) -> str:
    """The mode of a run with this one's other words that records each step; ``begin`` takes the place of its first."""
    return ":".join([begin, *(word for word in mode.split(":")[1:] if word != LEARNED)])


def as_told(evidence: Evidence) -> Evidence:
    """The evidence without all that a graph recorded in part seems to show; itself where each step was recorded.

    A node without a stack may come from a step that is not like the recorded ones, and a line that was recorded may
    be one that did not run this time: so nothing of the graph stays, and the exception is read as one in a log is.
    The calls stay, which were all seen.
    """
    thinned = evidence.extras.get(THINNED)
    if thinned is None or evidence.from_text:
        return evidence
    told = {"since": thinned.get("since", "?") if isinstance(thinned, dict) else "?"}
    if evidence.raised is None and evidence.as_if is None:
        evidence.degraded.append(_NOT_IN_FULL.format(**told))
        return evidence
    left = Evidence(from_text=True)
    if evidence.as_if is None and evidence.raised is not None:
        raised = evidence.raised
        match = recognise_exception(raised.type, raised.message)
        left = evidence_from(Failure(raised.type, raised.message, match, list(raised.stack), chain=list(raised.causes)))
        left.raised = raised
        left.degraded.clear()
        left.signs = evidence.signs
        call = evidence.event(evidence.failing_event)
        if call is not None:
            left.events, left.failing_event = [call], call.index
    else:
        left.signs = [s if s.kind not in AS_IF else Sign(THINNED) for s in evidence.signs]
    for name in _SEEN:
        setattr(left, name, getattr(evidence, name))
    left.extras[THINNED] = thinned
    left.degraded += [*evidence.degraded, _NOT_RECORDED.format(**told)]
    return left
