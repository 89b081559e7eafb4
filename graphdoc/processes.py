"""The processes of one run: which one failed first, which share its failure, which only waited."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from graphdoc.documents import decode, digest, read_source
from graphdoc.evidence import GRADIENTS, Evidence, EvidenceError, Sign
from graphdoc.heads import Head, read_head
from graphdoc.launch.keep import Kept
from graphdoc.second_run import as_told

MOST_RANKS = 200_000
"""Ranks of which each is told; the number itself is a word in a file."""
MOST_DAMAGED = 3
"""Files that cannot be read of which each has a sentence; the others are counted."""
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
    """Read what a run's processes left: the heads of all, and the whole of one.

    A file that cannot be read costs a sentence, not the report.
    """
    damaged: list[str] = []
    heads: list[Head] = []
    for file in kept.evidence if files is None else files:
        try:
            heads.append(read_head(file))
        except EvidenceError as e:
            damaged.append(str(e))
    result = Processes()
    result.ranks = max([1, *(h.process.world_size for h in heads)])
    failed = [h for h in heads if h.raised is not None]
    for head in _in_order(failed, heads):
        try:
            result.first, result.file = read_evidence(kept, head.file), head.file
            break
        except EvidenceError as e:
            damaged.append(str(e))
    result.notes += damaged[:MOST_DAMAGED]
    if len(damaged) > MOST_DAMAGED:
        result.notes.append(f"{len(damaged) - MOST_DAMAGED} more evidence files cannot be read")
    if result.first is not None and result.first.raised is not None and result.ranks > 1:
        own = result.first.process.rank
        ranks = (h for h in failed if h.process.rank >= 0)  # their parent is none
        further = [(h, same_failure(result.first, h)) for h in ranks if h.process.rank != own]
        result.notes += _about_ranks(own, further, result.ranks, kept.ended)
    return result


def _in_order(failed: list[Head], heads: list[Head]) -> list[Head]:
    """The files to read whole, the first that can be read is the one. An exception that ended its process before one
    that was caught; then the one that was there first; in place of a process that says where its failure is told whole,
    that one.
    """
    if not failed:
        # Ranks do the same: the first one speaks for what was seen in runs that went on.
        return sorted((h for h in heads if h.signed), key=lambda h: (h.process.rank, h.process.written))
    ordered = sorted(failed, key=lambda h: (not h.uncaught, h.process.written))
    whole = {h.file.name: h for h in failed if not h.told_by}
    teller = whole.get(f"evidence-{ordered[0].told_by}.json")
    same = [teller] if teller is not None and same_failure(teller, ordered[0]) else []
    return [*same, *ordered]


def read_evidence(kept: Kept, file: Path) -> Evidence:
    """One evidence file of a run, without what rests on steps that were not recorded. A folder that a stranger's file
    names is not looked at: the user's own stands for it.

    Raises:
        EvidenceError: it cannot be read.
    """
    evidence = Evidence.read(str(file))
    if not kept.trusted:
        evidence.process.cwd = str(kept.cwd)
    return as_told(evidence)


class Arriving:
    """The Evidence that a run writes while it goes on: each document once, as often as it is written anew. One that
    cannot be read yet, because it is being written, is left out until it is written again."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._read: dict[Path, float] = {}

    def __iter__(self) -> Iterator[Evidence]:
        for file in self._out.glob("evidence-*.json"):
            changed = file.stat().st_mtime
            if self._read.get(file) != changed:
                self._read[file] = changed
                try:
                    yield Evidence.read(str(file))
                except (EvidenceError, OSError):
                    continue


def are_complete(signs: Iterable[Sign]) -> bool:
    """Whether all looks at gradients that were planned have been made."""
    return any(s.kind == GRADIENTS and s.facts.get("complete") for s in signs)


def same_failure(a: Evidence | Head, b: Evidence | Head) -> bool:
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


@lru_cache(1024)
def _plain(message: str) -> str:
    return re.sub(r"\d+", "#", " ".join(message[:4000].split()))


def _about_ranks(own: int, further: list[tuple[Head, bool]], ranks: int, ended: bool) -> list[str]:
    """Which ranks share the failure of the rank that failed first, failed otherwise, or left nothing because they only
    waited. ``further`` are those that failed besides, and whether in the same way."""
    if own < 0:
        return []
    notes = [f"of {ranks} ranks, rank {own} failed first"]
    sharing, others = ([h for h, alike in further if alike is wanted] for wanted in (True, False))
    known = {own, *(h.process.rank for h, _ in further)}
    silent = [rank for rank in range(ranks) if rank not in known] if ranks <= MOST_RANKS else []
    if sharing:
        notes.append(f"{as_ranks(h.process.rank for h in sharing)} failed in the same way")
    if others:
        place = _waited(others)
        told = f", most of them at {place}" if place and len(others) > 1 else f", at {place}" if place else ""
        notes.append(
            f"{as_ranks(h.process.rank for h in others)} ended with another exception{told}, "
            "as ranks do that wait for one that has failed"
        )
    if silent:
        still = "" if ended else ", or still running"
        notes.append(f"{as_ranks(silent)} raised nothing: only waited, or ended by the launcher{still}")
    return ["; ".join(notes)]


def _waited(others: list[Head]) -> str:
    """The user's line at which most of these were; empty where their frames do not tell."""
    places: Counter[str] = Counter()
    for head in others:
        stack = head.raised.stack if head.raised is not None else []
        frame = next((f for f in reversed(stack) if f.user), None)
        if frame is not None:
            places[f"{frame.file}:{frame.line}"] += 1
    ((place, count),) = places.most_common(1) or [("", 0)]
    return place if 2 * count > len(others) else ""


def as_ranks(numbers: Iterable[int]) -> str:
    """``ranks 0-3, 7 and 12 more``: runs of numbers by their ends, eight of them at most."""
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for n in ordered:
        if runs and n == runs[-1][-1] + 1:
            runs[-1][1:] = [n]
        else:
            runs.append([n])
    shown = runs[:8]
    named = [str(n) for run in shown for n in (run if run[-1] - run[0] < 2 else [f"{run[0]}-{run[-1]}"])]
    left = len(ordered) - sum(run[-1] - run[0] + 1 for run in shown)
    more = f" and {left} more" if left else ""
    return f"rank{'s' if len(ordered) > 1 else ''} {', '.join(named)}{more}"
