"""What crosses from the user's process: one document of plain typed data, with a version.

Standard library only: the capture imports it inside the user's process, everything to the right of it (causes, fixes,
renderers) reads it later, on any machine, without torch. It holds shapes, dtypes, names, places, versions and source
text, never tensor values (but see ``graphdoc.capture.number_facts``) and never environment variables.
"""

from graphdoc.evidence.document import EVIDENCE_VERSION, FORMER_NAMES, MOST_BYTES, Evidence, EvidenceError, load
from graphdoc.evidence.graph import Cut, Folded, Frame, Holder, Node, OlderEdge, Part, Stale, Step, Tensor, Write
from graphdoc.evidence.run_records import (
    AS_IF,
    BYPASSED,
    ITSELF,
    LAST_LINE,
    NO_GRAPH,
    SECOND_LOOK,
    STALE_UNSEEN,
    Event,
    Optimizer,
    Package,
    Parameter,
    Process,
    Raised,
    Sign,
    SourceTexts,
)

__all__ = [
    "AS_IF",
    "BYPASSED",
    "EVIDENCE_VERSION",
    "FORMER_NAMES",
    "ITSELF",
    "LAST_LINE",
    "MOST_BYTES",
    "NO_GRAPH",
    "SECOND_LOOK",
    "STALE_UNSEEN",
    "Cut",
    "Event",
    "Evidence",
    "EvidenceError",
    "Folded",
    "Frame",
    "Holder",
    "Node",
    "OlderEdge",
    "Optimizer",
    "Package",
    "Parameter",
    "Part",
    "Process",
    "Raised",
    "Sign",
    "SourceTexts",
    "Stale",
    "Step",
    "Tensor",
    "Write",
    "load",
]
