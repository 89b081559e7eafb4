"""Turns what the causes ask for into patches, has them tried, and puts the best one first."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoc.diagnose import fix_of
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence, Process
from graphdoc.finding import Remedy
from graphdoc.fixes.apply import unified
from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build, traits_of
from graphdoc.launch.keep import Kept
from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.probe import deepened
from graphdoc.processes import changed_sources, read_processes
from graphdoc.project import is_installed, naming, project_root, working_directory
from graphdoc.proposals import Candidate
from graphdoc.source.effects import may_draw
from graphdoc.source.layout import is_compound
from graphdoc.source.module import Source
from graphdoc.story.wording import in_lines
from graphdoc.verify.compared import TOLERANCE

if TYPE_CHECKING:
    from graphdoc.proposals.trying import Trying


def propose(kept: Kept, report: Report, *, verify: bool = True, trying: Trying | None = None) -> Report:
    """The report with a diff for each fix that can be built; with ``verify`` they are tried, as ``trying`` says. With
    ``trying`` alone what earlier trials of this run have found is told, and nothing is run.

    A fix that passed its trial comes first and one that failed comes last; the others keep their order. What cannot be
    built is told in ``Report.left_out``, with the reason.

    Raises:
        UsageError: a file that a fix would change is no longer what ran.
    """
    evidence = evidence_of(kept)
    if evidence is None or not report.diagnoses:
        return report
    sources = {file: Source(file, text) for file, text in evidence.sources.items()}
    changed = {os.path.realpath(os.path.join(evidence.process.cwd, f)): f for f in changed_sources(evidence)}
    notes: list[str] = []
    left_out: list[str] = []
    per_diagnosis: list[tuple[Diagnosis, list[Candidate]]] = []
    for diagnosis in report.diagnoses:
        candidates = [
            c
            for c in _candidates(kept, evidence, sources, diagnosis.remedies, notes, left_out)
            if not any(c.texts and c.texts == other.texts for _, others in per_diagnosis for other in others)
        ]
        for candidate in candidates:
            candidate.diagnosis = diagnosis
            stale = next((changed[p] for p in candidate.texts if p in changed), None)
            if stale is not None:
                raise UsageError(f"{stale} has changed since the run: run the program again first")
        per_diagnosis.append((diagnosis, candidates))
    if verify or trying is not None:
        from graphdoc.proposals.trying import Composer, Trying, recall, try_out

        every = [c for _, candidates in per_diagnosis for c in candidates]
        root = root_of(kept)
        composer = Composer(kept, evidence, root, _standing(kept, root))
        if verify and kept.may_run:
            further = try_out(kept, evidence, every, trying or Trying(), composer)
        else:
            further = recall(kept, every, composer)
        for parent, candidate in further:
            own = next(cs for _, cs in per_diagnosis if any(c is parent for c in cs))
            own.append(candidate)
    diagnoses = tuple(d.with_fixes(tuple(_told(c.fix, sources) for c in in_order(cs))) for d, cs in per_diagnosis)
    told = (*report.notes, *dict.fromkeys(notes))
    return replace(report, diagnoses=diagnoses, notes=told, left_out=tuple(dict.fromkeys(left_out)))


def _told(fix: Fix, files: Collection[str]) -> Fix:
    """The fix with what its trial has measured by the rule for lines: ``line 36`` where the program is one file."""
    said = fix.verification.get("summary")
    if not isinstance(said, str):
        return fix
    return replace(fix, verification={**fix.verification, "summary": in_lines(said, files)})


def evidence_of(kept: Kept) -> Evidence | None:
    """The evidence that a kept run's report was made from, with what a second run has added to it."""
    first = read_processes(kept).first
    if first is None:
        return None
    return deepened(kept, first.process) or first


def _candidates(
    kept: Kept,
    evidence: Evidence,
    sources: Mapping[str, Source],
    remedies: Sequence[Remedy],
    notes: list[str],
    left_out: list[str],
) -> list[Candidate]:
    """What the remedies of one diagnosis come to, in their order."""
    candidates: list[Candidate] = []
    files: dict[str, str] = {}
    root = root_of(kept)
    here = _standing(kept, root)
    for remedy in remedies:
        fix = fix_of(remedy, evidence)
        try:
            texts = build(remedy.kind, sources, remedy.args, remedy.placeholders)
            paths = {file: _own_file(kept, evidence.hashes, evidence.process, file, root) for file in texts}
        except CannotFix as e:
            if not remedy.is_complete:  # its words tell what to do
                candidates.append(Candidate(replace(fix, safety="display", placeholders={}), remedy))
                continue
            left_out.append(f"{fix.title}: {in_lines(str(e), sources.keys())}")
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
        base = "" if called.base == working_directory() else str(called.base)
        files.update({paths[file]: file for file in texts})
        candidates.append(Candidate(replace(fix, diff=unified(old_named, new_named), base=base), remedy, new))
    candidates.sort(key=lambda c: _draws_again(sources, files, c))
    for number, candidate in enumerate(candidates):
        same = sum(1 for c in candidates[:number] if c.remedy and c.remedy.kind == candidate.fix.id)
        if same:
            candidate.fix = replace(candidate.fix, id=f"{candidate.fix.id}-{same + 1}")
    return candidates


def _draws_again(sources: Mapping[str, Source], files: Mapping[str, str], candidate: Candidate) -> bool:
    """Whether a patch runs once more what may draw: its losses would be of two draws, and one that needs no second
    forward goes first. ``files`` has the name in ``sources`` of each path."""
    remedy = candidate.remedy
    if remedy is None or not traits_of(remedy.kind, remedy.args).runs_again:
        return False
    trees = [s.tree for s in sources.values()]
    for path, text in candidate.texts.items():
        before = Counter(ast.unparse(n) for n in _simple(sources[files[path]]))
        for node in _simple(Source("", text)):
            before[ast.unparse(node)] -= 1
            if before[ast.unparse(node)] < 0 and may_draw(trees, node):
                return True
    return False


def _simple(source: Source) -> list[ast.stmt]:
    return [n for n in source.node_statements() if not is_compound(n)]


def root_of(kept: Kept) -> Path:
    """The folder below which a fix for this run may change files: the user's project."""
    words = kept.request.command
    named = kept.cwd / words[0] if kept.trusted and kept.request.kind == "script" and words else None
    return project_root(kept.cwd, named)


def _standing(kept: Kept, root: Path) -> Path:
    """Where the user stands, if that lies in the project; else where he stood when he ran the program."""
    here = working_directory()
    return here if here == root or root in here.parents else Path(os.path.realpath(kept.cwd))


def _own_file(kept: Kept, hashes: dict[str, str], process: Process, file: str, root: Path) -> str:
    """The absolute path of a file of the project whose text is, to the letter, the one that the evidence holds.

    Raises:
        CannotFix: it belongs to an installed package, lies outside the project, or its text is not known for certain.
    """
    path = os.path.realpath(os.path.join(process.cwd or str(kept.cwd), file))
    if is_installed(path):
        raise CannotFix(f"{file} belongs to an installed package")
    if root not in Path(path).parents:
        raise CannotFix(f"{file} lies outside the project in {root}; a run from its own project gives a patch")
    if file not in hashes:
        raise CannotFix(f"which text of {file} has run is not known")
    return path


def in_order(candidates: list[Candidate]) -> list[Candidate]:
    """Passed, then passed with random numbers of its own, then passed with nothing to measure by, then past the failure
    with no time left to compare, then not tried or undecided, then with other gradients than it was to have, then
    failed; each in its order.
    """
    return sorted(candidates, key=_rank)


def _rank(candidate: Candidate) -> int:
    told = candidate.fix.verification
    if candidate.fix.verified is not None:
        return int(bool(told.get("draws_again"))) if candidate.fix.verified else 6
    if candidate.settled:
        return 2
    if told.get("max_relative_difference", 0.0) > TOLERANCE:
        return 5
    return 3 if told.get("passed_crash") is True and told.get("open") else 4
