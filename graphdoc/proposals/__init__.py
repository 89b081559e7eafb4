"""From the remedies of a report to patches: built by the kinds of fix, tried, put in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphdoc.finding import Remedy
from graphdoc.model import Diagnosis, Fix


@dataclass
class Candidate:
    """One fix with the new text of each file that it changes, by absolute path; empty where it is only described.

    ``settled``: it has been tried, and nothing speaks against it. ``chain``: the further failures, in the order in
    which trials met them, that this patch mends besides the first. ``diagnosis`` is what it was proposed for.
    """

    fix: Fix
    remedy: Remedy | None = None
    texts: dict[str, str] = field(default_factory=dict)
    settled: bool = False
    chain: tuple[Mapping[str, str], ...] = ()
    diagnosis: Diagnosis | None = None
