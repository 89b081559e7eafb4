"""What may be told of a run in which steps were not recorded (``--capture learned``): words and calls, no graph."""

from __future__ import annotations

from graphdoc.evidence import AS_IF, LEARNED, THINNED, Evidence, Sign
from graphdoc.messages.log import Failure
from graphdoc.messages.reading import evidence_from
from graphdoc.messages.recognise import recognise_exception

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
