"""What the words of an autograd error allow to say, where no graph was recorded: the weakest evidence there is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.evidence import Evidence
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Confidence, Role
from graphdoc.program.spans import innermost_user, span

SECOND_TIME = r"[Tt]rying to backward through the graph a second time"
VERSION = r"has been modified by an inplace operation"

# A pasted log can hold anything; no message of PyTorch is as long as this.
_LONGEST = 8000

_TENSOR = re.compile(r"inplace operation: \[(?P<type>[\w.]{1,80})(?: \[(?P<shape>[\d, ]{0,200})\])?\]")
_OUTPUT = re.compile(r"which is output (?P<output>\d{1,6}) of (?P<op>[^,]{1,200}),")
_VERSIONS = re.compile(r"is at version (?P<current>\d{1,12})[;,] expected version (?P<expected>\d{1,12})")

# How PyTorch called the transposed view that `Linear` saves of its weight, from the newest wording to the oldest.
_TRANSPOSED = frozenset(
    ("AsStrided", "AsStridedBackward0", "AsStridedBackward", "T", "TBackward0", "TBackward", "Transpose")
)
_SLICED = frozenset(("CopySlices", "torch::autograd::CopySlices", "AsStridedBackward0", "AsStrided"))
_INTEGER = re.compile(r"(?:Long|Int|Short|Byte|Char|Bool)(?:Tensor|Type)$")


@dataclass(frozen=True)
class Mismatch:
    """The fields of a version error. ``op`` is empty where the message has no "which is output N of X": a leaf.

    ``kind`` is what the run found the tensor to be (see ``graphdoc.evidence.Tensor.kind``); empty from text alone.
    ``current`` and ``expected`` are -1 in wordings that leave them out.
    """

    type: str = ""
    shape: tuple[int, ...] = ()
    op: str = ""
    current: int = -1
    expected: int = -1
    kind: str = ""

    @property
    def leaf(self) -> bool:
        """True where the message names no operation that made the tensor: a parameter, a buffer or plain data."""
        return not self.op

    @property
    def transposed_weight(self) -> bool:
        """True for the view of its weight that a ``Linear`` or a recurrent cell saves."""
        return self.op in _TRANSPOSED and len(self.shape) == 2

    @property
    def sliced(self) -> bool:
        """True for a tensor that was written piece by piece, or for a piece of one."""
        return self.op in _SLICED and not self.transposed_weight

    @property
    def integer(self) -> bool:
        """True for a dtype that no parameter can have: indices, counters, masks."""
        return _INTEGER.search(self.type) is not None

    @property
    def writes(self) -> int:
        """How far the version counter moved; -1 where the message does not tell."""
        return self.current - self.expected if self.expected >= 0 else -1

    def may_be(self, *kinds: str) -> bool:
        """False only where the run has found the tensor to be something else than these kinds."""
        return self.kind in ("", "unknown", *kinds)


def texts(evidence: Evidence) -> list[str]:
    """The message and those of the exceptions behind it, each on one line (logs wrap, and so does PyTorch)."""
    if evidence.raised is None:
        return []
    found = [evidence.raised.message, *evidence.raised.causes]
    return [" ".join(text[:_LONGEST].split()) for text in found]


def says(evidence: Evidence, *patterns: str) -> bool:
    """Whether the message, or one behind it, matches one of these regular expressions."""
    return any(re.search(pattern, text) for text in texts(evidence) for pattern in patterns)


def mismatch(evidence: Evidence) -> Mismatch | None:
    """The fields of the version error in the message, or None for any other message."""
    text = next((t for t in texts(evidence) if re.search(VERSION, t)), None)
    if text is None:
        return None
    tensor, output, versions = _TENSOR.search(text), _OUTPUT.search(text), _VERSIONS.search(text)
    shape = (tensor and tensor["shape"]) or ""
    return Mismatch(
        type=tensor["type"] if tensor else "",
        shape=tuple(int(n) for n in re.findall(r"\d{1,12}", shape)),
        op=output["op"].strip() if output else "",
        current=int(versions["current"]) if versions else -1,
        expected=int(versions["expected"]) if versions else -1,
        kind=evidence.stale[0].tensor.kind if evidence.stale else "",
    )


def from_message(
    evidence: Evidence,
    *patterns: str,
    strength: float,
    title: str,
    explanation: str,
    confidence: Confidence = "possible",
    role: Role = "failed",
    label: str = "",
    facts: Sequence[str] = (),
    remedies: Sequence[Remedy] = (),
) -> Finding | None:
    """A finding from words alone, or None where no pattern (a regular expression) matches the message.

    The only place that a traceback gives is the innermost line of the user's own code; ``role`` and ``label`` say
    what it means for this cause.

    Raises:
        ValueError: ``strength`` is not below 0.5, which is kept for what a graph proves.
    """
    if strength >= 0.5:
        raise ValueError(f"a message alone cannot be evidence of strength {strength}")
    if not says(evidence, *patterns):
        return None
    frame = innermost_user(evidence.raised.stack) if evidence.raised else None
    spans = (span(role, frame, label, evidence),) if frame else ()
    return Finding(strength, confidence, title, explanation, spans, tuple(facts), tuple(remedies))
