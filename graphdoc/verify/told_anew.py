"""What the diagnosis tells of a patched run, and tells of no run of the unpatched program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphdoc.diagnose import Found, findings_for
from graphdoc.evidence import SO_FAR, Evidence
from graphdoc.finding import Finding
from graphdoc.verify.failing_again import Back, same_signs
from graphdoc.verify.traces import Line


def told_anew(
    seen: Evidence, before: Sequence[Evidence], texts: Mapping[str, str], back: Back, ended: bool
) -> list[Found]:
    """Each finding of another cause, or of one at another place, than those of the runs ``before``; what is only
    possible is none. ``texts`` are what ran instead of the files on the disk, by the names of the evidence; ``back``
    gives the line of the original. Not ``ended``: the run was stopped, and a later step may contradict what was so
    until then.
    """
    seen.sources.update(texts)
    seen.signs = [s for s in seen.signs if ended or SO_FAR not in s.facts]
    seen.signs = [s for s in seen.signs if not any(same_signs([s], one.signs) for one in before)]
    found = [f for f in findings_for(seen)[0] if f.finding.confidence != "possible"]
    if not found:
        return []
    known = {(f.cause.code, at) for one in before for f in findings_for(one)[0] for at in _places(f.finding)}
    return [f for f in found if not any((f.cause.code, back(at)) in known for at in _places(f.finding))]


def _places(finding: Finding) -> set[Line]:
    """Where it sends the reader to."""
    spans = [s for s in finding.spans if s.role == "cause"] or finding.spans
    return {(s.file, s.line) for s in spans} or {("", 0)}
