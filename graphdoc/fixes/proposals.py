"""Turns what the causes ask for into patches, has them tried, and puts the best one first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoc.causes.base import Remedy
from graphdoc.diagnose import Found, findings_for
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence
from graphdoc.fixes.base import CannotFix
from graphdoc.fixes.diff import unified
from graphdoc.fixes.kinds import build, keeps_numbers
from graphdoc.launch.keep import Kept
from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.probe import deepened
from graphdoc.processes import changed_sources, read_processes
from graphdoc.project import naming, project_root, standing
from graphdoc.source.module import Source

BUDGET = 100.0
"""Seconds that all trials of one report may take together."""

Progress = Callable[[str], None]


@dataclass
class Candidate:
    """One fix with the new text of each file that it changes, by absolute path; empty where it is only described."""

    fix: Fix
    remedy: Remedy | None = None
    texts: dict[str, str] = field(default_factory=dict)


def propose(kept: Kept, report: Report, *, verify: bool = True, progress: Progress | None = None) -> Report:
    """The report with a diff for each fix that can be built; with ``verify``, those tried come first or last.

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
    if verify and kept.may_run:
        _try_out(kept, evidence, [c for _, candidates in per_diagnosis for c in candidates], progress)
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
    root = root_of(kept)
    here = _standing(kept, root)
    for remedy in found.finding.remedies:
        fix = Fix(remedy.kind, remedy.title, remedy.safety, note=remedy.note)
        try:
            texts = build(remedy.kind, sources, remedy.args)
            paths = {file: _own_file(kept, evidence, file, root) for file in texts}
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
        called = naming(new, here, root)
        old_named = {called.names[paths[file]]: sources[file].text for file in texts}
        new_named = {called.names[paths[file]]: text for file, text in texts.items()}
        base = "" if called.base == standing() else str(called.base)
        candidates.append(Candidate(replace(fix, diff=unified(old_named, new_named), base=base), remedy, new))
    for number, candidate in enumerate(candidates):
        same = sum(1 for c in candidates[:number] if c.remedy and c.remedy.kind == candidate.fix.id)
        if same:
            candidate.fix = replace(candidate.fix, id=f"{candidate.fix.id}-{same + 1}")
    return candidates


def root_of(kept: Kept) -> Path:
    """The folder below which a fix for this run may change files: the user's project."""
    words = kept.request.command
    named = kept.cwd / words[0] if kept.trusted and kept.request.kind == "script" and words else None
    return project_root(kept.cwd, named)


def _standing(kept: Kept, root: Path) -> Path:
    """Where the user stands, if that lies in the project; else where he stood when he ran the program."""
    here = standing()
    return here if here == root or root in here.parents else Path(os.path.realpath(kept.cwd))


def _own_file(kept: Kept, evidence: Evidence, file: str, root: Path) -> str:
    """The absolute path of a file of the project whose text is, to the letter, the one that the evidence holds.

    Raises:
        CannotFix: it belongs to an installed package, lies outside the project, or its text is not known for certain.
    """
    path = os.path.realpath(os.path.join(evidence.process.cwd or str(kept.cwd), file))
    if {"site-packages", "dist-packages"} & set(Path(path).parts):
        raise CannotFix(f"{file} belongs to an installed package")
    if root not in Path(path).parents:
        raise CannotFix(f"{file} lies outside the project in {root}; a run from its own project gives a patch")
    if file not in evidence.hashes:
        raise CannotFix(f"which text of {file} has run is not known")
    return path


def _ordered(candidates: list[Candidate]) -> list[Candidate]:
    """Passed, then not tried or undecided, then failed; each group in its own order."""
    return sorted(candidates, key=lambda c: {True: 0, None: 1, False: 2}[c.fix.verified])


def _try_out(kept: Kept, evidence: Evidence, candidates: list[Candidate], progress: Progress | None) -> None:
    """Try candidates in their order until one passes or the time is used up."""
    from graphdoc.verify import Trial

    tried = [c for c in candidates if c.texts and c.fix.safety != "display"]
    if not tried:
        return
    deadline = time.monotonic() + BUDGET
    with Trial(kept, evidence) as trial:
        for number, candidate in enumerate(tried, 1):
            rest = deadline - time.monotonic()
            if rest < 1.0:
                break
            if progress is not None:
                progress(f"trying fix {number} of {len(tried)}: {candidate.fix.title}")
            remedy = candidate.remedy
            kept_numbers = remedy is not None and keeps_numbers(remedy.kind, remedy.args)
            verdict = trial.of(candidate.texts, candidate.fix.safety == "safe", rest, same_numbers=kept_numbers)
            candidate.fix = replace(candidate.fix, verified=verdict.verified, verification=verdict.to_json())
            if not verdict.equal:
                # Called safe, and measured not to be: it must not be applied without the user's leave.
                candidate.fix = replace(candidate.fix, safety="unsafe")
            if verdict.verified:
                break
    if progress is not None:
        progress("")
