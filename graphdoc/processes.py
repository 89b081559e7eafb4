"""The processes of one run: which one failed first, which share its failure, which only waited."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from graphdoc.evidence import Evidence, EvidenceError
from graphdoc.launch.keep import Kept
from graphdoc.sourcetext import decode, digest, read_source

MOST_RANKS = 4096
"""Ranks of which each is told; the number itself is a word in a file."""
DEEPENED = "deepened-"
"""Name of the evidence of a second run, beside ``evidence-<pid>.json`` of the first."""


@dataclass
class Processes:
    """The evidence of the process that failed first, and sentences about the others. Where none failed, that of the
    first in which something was seen all the same; None where there is neither."""

    first: Evidence | None = None
    ranks: int = 1
    notes: list[str] = field(default_factory=list)
    file: Path | None = None


def read_processes(kept: Kept, files: Iterable[Path] | None = None) -> Processes:
    """Read what a run's processes left. A file that cannot be read costs a sentence, not the report."""
    found: list[tuple[Evidence, Path]] = []
    result = Processes()
    for file in kept.evidence if files is None else files:
        try:
            found.append((read_evidence(kept, file), file))
        except EvidenceError as e:
            result.notes.append(str(e))
    if not found:
        return result
    failed = [pair for pair in found if pair[0].raised is not None]
    result.ranks = max(1, *(e.process.world_size for e, _ in found))
    if not failed:
        # Ranks do the same: the first one speaks for what was seen in runs that went on.
        signed = [pair for pair in found if pair[0].signs]
        if signed:
            result.first, result.file = min(signed, key=lambda pair: (pair[0].process.rank, pair[0].process.written))
        return result
    # An exception that ended its process before one that was caught; then the one that was there first.
    failed.sort(key=lambda pair: (not _uncaught(pair[0]), pair[0].process.written))
    first, result.file = failed[0]
    if result.ranks > 1:
        result.notes += _about_ranks(first, [e for e, _ in failed], result.ranks)
    result.first = first
    return result


def read_evidence(kept: Kept, file: Path) -> Evidence:
    """One evidence file of a run. A folder that a stranger's file names is not looked at: the user's own stands for it.

    Raises:
        EvidenceError: it cannot be read.
    """
    evidence = Evidence.read(str(file))
    if not kept.trusted:
        evidence.process.cwd = str(kept.cwd)
    return evidence


def same_failure(a: Evidence, b: Evidence) -> bool:
    """Whether both ended with the same exception, numbers and addresses apart."""
    if a.raised is None or b.raised is None:
        return False
    return a.raised.type == b.raised.type and _plain(a.raised.message) == _plain(b.raised.message)


def changed_sources(evidence: Evidence) -> list[str]:
    """The source files, as the frames name them, that no longer hold what ran, or not the text that is told of it."""
    changed = []
    cells = evidence.extras.get("cells")
    for name, known in evidence.hashes.items():
        if isinstance(cells, list) and name in cells:
            continue  # of a notebook's cell there is no other text than that which ran
        data = read_source(os.path.join(evidence.process.cwd, name))
        if data is None or digest(data) != known or evidence.sources.get(name, "") not in ("", decode(data)):
            changed.append(name)
    return changed


def _uncaught(evidence: Evidence) -> bool:
    return evidence.raised is not None and evidence.raised.uncaught


def _plain(message: str) -> str:
    return re.sub(r"\d+", "#", " ".join(message[:4000].split()))


def _about_ranks(first: Evidence, failed: list[Evidence], ranks: int) -> list[str]:
    """Which ranks share the first failure, failed otherwise, or left nothing because they only waited."""
    own = first.process.rank
    if own < 0:
        return []
    notes = [f"of {ranks} ranks, rank {own} failed first"]
    sharing = sorted(e.process.rank for e in failed if e is not first and same_failure(first, e))
    others = sorted(e.process.rank for e in failed if e is not first and not same_failure(first, e))
    heard = {e.process.rank for e in failed}
    silent = [rank for rank in range(ranks) if rank not in heard] if ranks <= MOST_RANKS else []
    if sharing:
        notes.append(f"{_ranks(sharing)} failed in the same way")
    if others:
        notes.append(f"{_ranks(others)} ended with another exception, as ranks do that wait for one that has failed")
    if silent:
        notes.append(f"{_ranks(silent)} raised nothing: only waited, or ended by the launcher")
    return ["; ".join(notes)]


def _ranks(numbers: list[int]) -> str:
    shown = ", ".join(str(n) for n in numbers[:8]) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"
