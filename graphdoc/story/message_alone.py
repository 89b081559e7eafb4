"""What the words of an error allow to say without a graph, the weakest evidence; and causes that one fact decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import cast

from graphdoc.evidence import Raised, Stale
from graphdoc.finding import Finding
from graphdoc.messages.ways_out import rows
from graphdoc.model import Confidence, Role
from graphdoc.program.exception import SECOND_TIME, VERSION, message_of
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, span_of

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
    def sort(self) -> str:
        """What the message shows the tensor to be: integer, leaf, weight, slice or result (of another operation)."""
        if self.leaf:
            return "integer" if self.integer else "leaf"
        return "weight" if self.transposed_weight else "slice" if self.sliced else "result"

    @property
    def writes(self) -> int:
        """How far the version counter moved; -1 where the message does not tell."""
        return self.current - self.expected if self.expected >= 0 else -1

    def may_be(self, *kinds: str) -> bool:
        """False only where the run has found the tensor to be something else than these kinds."""
        return self.kind in ("", "unknown", *kinds)


def mismatch(raised: Raised | None, stale: list[Stale]) -> Mismatch | None:
    """The fields of the version error in the message, or None for any other message."""
    found = message_of(raised, *VERSION)
    if found is None:
        return None
    fields = found.fields
    return Mismatch(
        type=fields.get("dtype", ""),
        shape=tuple(int(n) for n in re.findall(r"\d{1,12}", fields.get("shape", ""))),
        op=fields.get("op", ""),
        current=int(fields.get("version", -1)),
        expected=int(fields.get("expected", -1)),
        kind=stale[0].tensor.kind if stale else "",
    )


_BEST, _BEST_OF_MANY, _APART = 0.49, 0.40, 0.02
_MANY = 3
"""So many causes of one message are no more than guesses."""
_OVERWRITTEN = {
    "integer": {"buffer-updated-in-place": 0.48, "inplace-on-saved-activation": 0.22},
    "leaf": {
        "optimizer-step-before-backward": 0.42,
        "retain-graph-cover-up": 0.34,
        "buffer-updated-in-place": 0.32,
        "parameter-overwritten": 0.30,
        "carried-state": 0.26,
        "stored-with-graph": 0.24,
        "undetached-target": 0.23,
        "inplace-on-saved-activation": 0.22,
    },
    "weight": {
        "optimizer-step-before-backward": 0.44,
        "retain-graph-cover-up": 0.34,
        "parameter-overwritten": 0.30,
        "state-overwritten-in-place": 0.30,
        "inplace-on-saved-activation": 0.28,
        "carried-state": 0.26,
        "stored-with-graph": 0.24,
        "undetached-target": 0.23,
    },
    "slice": {"state-overwritten-in-place": 0.47, "inplace-on-saved-activation": 0.28},
    "result": {"inplace-on-saved-activation": 0.46, "state-overwritten-in-place": 0.24},
}
"""How likely each cause of a version error is by what the message says of the tensor: a leaf or the result of what."""
_FLAGGED = 0.46
"""For the cover-up, where the program's own lines, as far as they are known, contain the flag."""
_NEEDS = {
    "buffer-updated-in-place": ("buffer", "leaf", "input"),
    "inplace-on-saved-activation": ("activation",),
    "state-overwritten-in-place": ("activation", "leaf", "input"),
}
"""What the tensor may turn out to be in the run; a parameter for all others."""


def likelihood(program: Program, slug: str, *ids: str) -> float:
    """How much one of these messages speaks for a cause, below 0.5; 0.0 for not at all. The only place that says so.

    Of a message that names no tensor the order of its causes in ``messages/patterns.json`` counts.
    """
    message = program.message(*ids)
    if message is None:
        return 0.0
    found = mismatch(program.raised, program.evidence.stale) if message.id in VERSION else None
    if found is None:
        best = _BEST if len(message.causes) < _MANY else _BEST_OF_MANY
        return best - _APART * message.causes.index(slug) if slug in message.causes else 0.0
    if not found.may_be(*_NEEDS.get(slug, ("parameter",))):
        return 0.0
    flagged = slug == "retain-graph-cover-up" and any("retain_graph=True" in t for t in program.sources.values())
    strength = _OVERWRITTEN[found.sort].get(slug, 0.0)
    return _FLAGGED if flagged and strength else strength


Asked = Callable[[Program], Finding | None]


def from_message(row: str, title: str, *ids: str) -> Asked:
    """What gives a finding from words alone, or None where none of these messages speaks for the cause of the ``row``.

    The only place that a traceback gives is the innermost line of the user's own code.
    """

    def told(program: Program) -> Finding | None:
        strength = likelihood(program, row.partition(":")[0], *ids)
        if not strength:
            return None
        text, label, confidence, role = next(said for known, *said in rows("alone", 5) if known == row)
        spans = span_of(cast(Role, role or "failed"), innermost_user(program.raised_stack), label)
        text = text.format(**_filled(mismatch(program.raised, program.evidence.stale) or Mismatch()))
        return Finding(strength, cast(Confidence, confidence or "possible"), title, text, spans)

    return told


def _filled(found: Mismatch) -> dict[str, str]:
    """What the rows leave open of a tensor that was overwritten."""
    weight = f"The tensor of shape {list(found.shape)} is probably the transposed weight of a layer"
    leaf = "The message names no operation that made the tensor: a leaf, probably a parameter"
    return {
        "kind": f"{found.type} is no type of a parameter, so" if found.integer else "The message names a leaf:",
        "named": f" (the output of {found.op})" if found.op and not found.transposed_weight else "",
        "what": weight if found.transposed_weight else leaf,
        "gap": f", written {found.writes} time(s) since it was saved" if found.writes > 0 else "",
    }


# The tests of causes that one fact alone decides. Without a graph, the words of the message are all that is known.


def of_message(*ids: str) -> Callable[[Asked], Asked]:
    """The test of a cause to which these messages belong alone."""
    return lambda told: wraps(told)(lambda program: told(program) if program.message(*ids) is not None else None)


def of_older_graph(title: str) -> Callable[[Callable[[Program, Reuse], Finding | None]], Asked]:
    """The test of a cause of a graph that an earlier call has used up, which is asked where that is known."""

    def test_of(told: Callable[[Program, Reuse], Finding | None]) -> Asked:
        alone = from_message(_slug(told), title, *SECOND_TIME, *VERSION)

        def asked(program: Program) -> Finding | None:
            reuse = program.reuse
            return alone(program) if reuse is None or not program.nodes else told(program, reuse)

        return wraps(told)(asked)

    return test_of


def of_overwrite(title: str, fault: Fault) -> Callable[[Callable[[Program, Overwrite], Finding]], Asked]:
    """The test of a cause of a tensor that was overwritten, which is told where that shows this fault."""

    def test_of(told: Callable[[Program, Overwrite], Finding]) -> Asked:
        alone = from_message(_slug(told), title, *VERSION)

        def asked(program: Program) -> Finding | None:
            found = program.overwrite
            return alone(program) if found is None else told(program, found) if found.fault is fault else None

        return wraps(told)(asked)

    return test_of


def _slug(told: Callable[..., Finding | None]) -> str:
    return told.__module__.rpartition(".")[2].replace("_", "-")
