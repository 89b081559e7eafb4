"""Turns what the causes ask for into patches, has them tried, and puts the best one first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoc.causes.base import Remedy
from graphdoc.diagnose import Found, findings_for
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence
from graphdoc.fixes.base import CannotFix
from graphdoc.fixes.diff import unified
from graphdoc.fixes.kinds import build
from graphdoc.launch.keep import Kept
from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.probe import deepened
from graphdoc.processes import changed_sources, read_processes
from graphdoc.source.module import Source

if TYPE_CHECKING:
    from graphdoc.fixes.trying import Trying


@dataclass
class Candidate:
    """One fix with the new text of each file that it changes, by absolute path; empty where it is only described.

    ``settled``: it has been tried, and nothing speaks against it.
    """

    fix: Fix
    remedy: Remedy | None = None
    texts: dict[str, str] = field(default_factory=dict)
    settled: bool = False


def propose(kept: Kept, report: Report, *, verify: bool = True, trying: Trying | None = None) -> Report:
    """The report with a diff for each fix that can be built; with ``verify`` they are tried, as ``trying`` says. With
    ``trying`` alone what earlier trials of this run have found is told, and nothing is run.

    A fix that passed its trial comes first and one that failed comes last; the others keep their order. What cannot be
    built is left out and told in a note.

    Raises:
        UsageError: a file that a fix would change is no longer what ran.
    """
    evidence = evidence_of(kept)
    if evidence is None or not report.diagnoses:
        return report
    found = {f.cause.slug: f for f in findings_for(evidence)[0]}
    sources = {file: Source(file, text) for file, text in evidence.sources.items()}
    changed = {os.path.realpath(os.path.join(evidence.process.cwd, f)): f for f in changed_sources(evidence)}
    notes: list[str] = []
    per_diagnosis: list[tuple[Diagnosis, list[Candidate]]] = []
    for diagnosis in report.diagnoses:
        candidates = [
            c
            for c in _candidates(kept, evidence, sources, found.get(diagnosis.cause), notes)
            if not any(c.texts and c.texts == other.texts for _, others in per_diagnosis for other in others)
        ]
        for candidate in candidates:
            stale = next((changed[p] for p in candidate.texts if p in changed), None)
            if stale is not None:
                raise UsageError(f"{stale} has changed since the run: run the program again first")
        per_diagnosis.append((diagnosis, candidates))
    if verify or trying is not None:
        from graphdoc.fixes.trying import Trying, recall, try_out

        every = [c for _, candidates in per_diagnosis for c in candidates]
        if verify:
            try_out(kept, evidence, every, trying or Trying())
        else:
            recall(kept, every)
    diagnoses = tuple(d.with_fixes(tuple(c.fix for c in _ordered(cs))) for d, cs in per_diagnosis)
    return replace(report, diagnoses=diagnoses, notes=(*report.notes, *dict.fromkeys(notes)))


def evidence_of(kept: Kept) -> Evidence | None:
    """The evidence that a kept run's report was made from, with what a second run has added to it."""
    first = read_processes(kept).first
    if first is None:
        return None
    return deepened(kept, first) or first


def _candidates(
    kept: Kept, evidence: Evidence, sources: Mapping[str, Source], found: Found | None, notes: list[str]
) -> list[Candidate]:
    """What one finding's remedies come to, in their order."""
    candidates: list[Candidate] = []
    if found is None:
        return candidates
    for remedy in found.finding.remedies:
        fix = Fix(remedy.kind, remedy.title, remedy.safety, note=remedy.note)
        try:
            texts = build(remedy.kind, sources, remedy.args)
            paths = {file: _own_file(kept, evidence, file) for file in texts}
        except CannotFix as e:
            if remedy.safety == "display":
                candidates.append(Candidate(fix, remedy))
                continue
            notes.append(f"a fix was left out ({remedy.title}): {e}")
            continue
        except Exception as e:
            # A fix that breaks is our own fault and must not cost the user the other fixes.
            notes.append(f"a fix could not be made ({remedy.title}): {type(e).__name__}: {e}")
            continue
        new = {paths[file]: text for file, text in texts.items()}
        if any(c.texts == new for c in candidates):
            continue
        old_named = {_shown(kept, paths[file]): sources[file].text for file in texts}
        new_named = {_shown(kept, paths[file]): text for file, text in texts.items()}
        candidates.append(Candidate(replace(fix, diff=unified(old_named, new_named)), remedy, new))
    for number, candidate in enumerate(candidates):
        same = sum(1 for c in candidates[:number] if c.remedy and c.remedy.kind == candidate.fix.id)
        if same:
            candidate.fix = replace(candidate.fix, id=f"{candidate.fix.id}-{same + 1}")
    return candidates


def _own_file(kept: Kept, evidence: Evidence, file: str) -> str:
    """The absolute path of a file of the project.

    Raises:
        CannotFix: it belongs to an installed package or lies outside the folder in which the program was started.
    """
    path = os.path.realpath(os.path.join(evidence.process.cwd or str(kept.cwd), file))
    if {"site-packages", "dist-packages"} & set(Path(path).parts):
        raise CannotFix(f"{file} belongs to an installed package")
    if Path(os.path.realpath(kept.cwd)) not in Path(path).parents:
        raise CannotFix(f"{file} lies outside {kept.cwd}")
    return path


def _shown(kept: Kept, path: str) -> str:
    """The name in a diff's header: relative to where the program was started, with forward slashes."""
    return os.path.relpath(path, os.path.realpath(kept.cwd)).replace(os.sep, "/")


def _ordered(candidates: list[Candidate]) -> list[Candidate]:
    """Passed, then passed with nothing to measure by, then not tried or undecided, then failed; each in its order."""
    return sorted(candidates, key=_rank)


def _rank(candidate: Candidate) -> int:
    if candidate.fix.verified is None:
        return 1 if candidate.settled else 2
    return 0 if candidate.fix.verified else 3
