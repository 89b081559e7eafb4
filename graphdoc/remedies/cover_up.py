"""Taking away what hides an error: ``loss.requires_grad_()`` and its kin, together with the fault that they hide."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.evidence import Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.cover_ups import cover_ups
from graphdoc.program.spans import place


def with_cover_ups(sources: SourceTexts, as_if: Sign | None, finding: Finding) -> Finding:
    """The finding whose remedies also take away what hides the error, where the statements are known."""
    sign = as_if
    covers = cover_ups(sources, as_if) if sign is not None and sign.kind == "covered-loss" else []
    if not covers:
        return finding
    deletions = [{"kind": "delete_statement", "args": {"place": place(f)}} for f in covers]
    both = [
        Remedy(
            "several",
            f"{r.title}, and drop what hid the error",
            r.safety,
            r.note,
            {"edits": [{"kind": r.kind, "args": r.args}, *deletions]},
            r.open,
        )
        for r in finding.remedies
        if r.safety != "display"
    ]
    return replace(finding, remedies=(*both, *finding.remedies))
