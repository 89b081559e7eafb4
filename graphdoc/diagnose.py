"""Runs the causes over the evidence of a run, ranks what they find and makes the report of it."""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence, Node, Raised, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.fixes.kinds import safety_of
from graphdoc.launch.keep import Kept, observed
from graphdoc.messages.recognise import Match, listed_of, recognise_exception
from graphdoc.messages.ways_out import way_out
from graphdoc.model import CONFIDENCE_ORDER, Diagnosis, Fix, Outcome, Report, Run
from graphdoc.picture import picture_of
from graphdoc.processes import read_processes
from graphdoc.program.cuts import is_meant
from graphdoc.program.exception import called_by_autograd, can_go_on, message_of, met_none
from graphdoc.program.installed import package_sources
from graphdoc.program.observed import program_of
from graphdoc.program.spans import in_whole_lines, innermost_user, line_text
from graphdoc.project import settings_of
from graphdoc.redaction import redact, redact_words
from graphdoc.remedies.alongside import with_cover_ups, with_leftovers_cleared
from graphdoc.second_run import needs_record
from graphdoc.shapes import Picture
from graphdoc.standing import Announce
from graphdoc.story.first_bad_value import every_value, is_asked
from graphdoc.story.gradients import gradients
from graphdoc.story.installed_code import assign, retold
from graphdoc.story.ungiven import weak_signs
from graphdoc.story.wording import begins_small, by_the_rules, in_lines, one_line

_UNEXPLAINED = "nonfinite-unexplained"
"""The cause whose only news is that a second run is needed."""
MOST = 3
"""Diagnoses told for one failure."""
KEPT_SHARE = 0.6
"""A further diagnosis is told only where its evidence is at least this part of the best one's."""
CALLS_IN_A_ROW = 3
"""Backward calls at the end of a run that have all failed, from which on an error that was caught is told."""

AUDIT_ALL = "audit-all"
"""The word in a run's mode by which the user asks for weak findings too."""
GRADIENTS_ASKED_FOR = "check-gradients"
"""The word by which the user asks for what was measured of the gradients."""
SILENT = "silent"
"""The family of causes that tell of a run which went on."""


@dataclass(frozen=True)
class Found:
    """A finding with the cause that it is of."""

    cause: Cause
    finding: Finding


def findings_for(evidence: Evidence) -> tuple[list[Found], list[str]]:
    """What the causes find, best first, and sentences about what could not be told.

    Every cause is asked: a cause that names message families looks at more than the message. A recogniser that raises
    is our own fault: it becomes a sentence, and the others go on. Where the exception is none of autograd's, only those
    causes are asked that name no family: they look at the program before they speak; and those of the family
    ``silent``, where something was seen before the program ended. So it is where a graph was used again that nothing
    had freed: sentences about a freed graph would be false.
    """
    match = _match(evidence.sources, evidence.raised)
    if evidence.raised is None and not evidence.signs:
        return [], []
    found: list[Found] = []
    notes: list[str] = []
    program = program_of(evidence)
    meant = is_meant(program)
    for cause in all_causes():
        went_on = match is None or (evidence.as_if is not None and evidence.as_if.kind == "computed-once")
        if went_on and cause.families and not (evidence.signs and SILENT in cause.families):
            continue
        try:
            finding = cause.recognise(program)
            if finding is not None:
                finding = retold(program, assign(program, cause.slug, finding), cause.families)
                finding = with_cover_ups(evidence.sources, evidence.as_if, with_leftovers_cleared(program, finding))
                finding = replace(finding, spans=in_whole_lines(evidence.sources, finding.spans))
        except Exception as e:
            notes.append(f"the recogniser of {cause.slug} failed: {type(e).__name__}: {e}")
            continue
        if finding is not None and meant and "no-graph" in cause.families:
            finding = replace(finding, confidence="possible")  # told as a lost graph, and it is the author's word
        if finding is not None:
            found.append(Found(cause, finding))
    found.sort(key=lambda f: (-f.finding.strength, CONFIDENCE_ORDER.index(f.finding.confidence)))
    if not found:
        if match is None:
            return [], [*notes, *every_value(evidence.signs, evidence.extras, program.trouble)]
        return [], [*notes, _unexplained(match, evidence.raised) + _made_at(evidence.failing_node, evidence.raised)]
    told = [f for i, f in enumerate(found) if f.cause.code[:3] not in {s.finding.covers for s in found[:i]}]
    if match is None and evidence.signs:
        return told[:MOST], notes  # each is a fault of its own
    return [f for f in told if f.finding.strength >= KEPT_SHARE * found[0].finding.strength][:MOST], notes


def diagnose(evidence: Evidence) -> Report:
    """The report for one process's evidence alone. Fixes are described, not yet built: they have no diff."""
    found, notes = findings_for(evidence)
    raised = evidence.raised if evidence.as_if is None else None
    status = evidence.exit_status if evidence.exit_status is not None else int(raised is not None)
    return Report(
        run=Run(
            command=tuple(redact_words(evidence.command or evidence.process.argv)),
            python=evidence.process.python or ("" if evidence.from_text else platform.python_version()),
            torch=evidence.process.torch,
            exit_status=status,
            seconds=evidence.seconds,
            ranks=max(evidence.process.world_size, 1),
        ),
        outcome=_outcome(evidence, bool(found), status),
        exception={"type": raised.type, "message": redact(raised.message)} if raised else None,
        diagnoses=tuple(_diagnosis(f, evidence) for f in found),
        notes=(*(notes if evidence.as_if is None else ()), *evidence.degraded),
        sources={**package_sources(evidence.packages), **evidence.sources},
        picture=_picture(evidence),
    )


def report_for(kept: Kept, *, announce: Announce | None = None) -> Report:
    """The report for a kept run: the evidence of the process that failed first.

    Where that evidence leaves a question that a second run answers, and the user has not refused one, the program is
    run again; ``announce`` is told so in one line. What that gave is kept beside the first evidence, so it happens
    once for a run. What of the run was not observed is part of the report.
    """
    return replace(_report(kept, announce), observed=observed(kept))


def so_far(kept: Kept) -> Report:
    """What the first run alone has shown of what is wrong, for one who waits for the second: nothing that is only
    possible or not explained, which that is made to decide. Where nothing is left of an autograd error, what that means
    and where."""
    report = replace(report_for(replace(kept, rerun=False)), notes=())
    sure = tuple(d for d in report.diagnoses if d.confidence != "possible" and d.cause != _UNEXPLAINED)
    first = read_processes(kept).first
    match = _match(first.sources, first.raised) if first is not None and report.exception is not None else None
    if sure or first is None or match is None:
        return replace(report, diagnoses=sure)
    return replace(report, diagnoses=(), notes=(in_lines(_placed(match.means, first.raised), _files(first)),))


def _report(kept: Kept, announce: Announce | None) -> Report:
    processes = read_processes(kept)
    first = processes.first
    run = Run(
        command=tuple(redact_words(kept.request.command)),
        python=first.process.python if first else platform.python_version(),
        torch=first.process.torch if first else "",
        exit_status=kept.exit_status,
        seconds=kept.seconds,
        ranks=processes.ranks,
    )
    if first is None or (first.raised is None and not first.signs):
        asked = GRADIENTS_ASKED_FOR in kept.request.mode.split(":")
        notes = [*processes.notes, *(gradients(Evidence()) if asked else ())]
        return Report(run, "other-failure" if kept.exit_status else "completed", notes=tuple(notes))
    match = _match(first.sources, first.raised)
    notes = list(processes.notes)
    everything = AUDIT_ALL in kept.request.mode.split(":")
    raised = first.raised
    caught = raised is not None and not raised.uncaught and kept.exit_status == 0 and not first.went_on
    if caught and match is not None:
        notes.append(_of_caught(first, everything))
    if caught and (match is None or not (everything or _trains_no_more(first))):
        # The program has dealt with it: what is none of its trouble is none of ours.
        if not first.signs:
            return Report(run, "completed", None, (), tuple(notes))
        first.raised, match, caught = None, None, False
    raised = first.raised if first.as_if is None else None
    exception = {"type": raised.type, "message": redact(raised.message)} if raised is not None else None
    if match is not None or first.signs:
        from graphdoc.probe import deepen, deepened

        first = (deepen(kept, first, announce) if kept.rerun else deepened(kept, first.process)) or first
    whole = diagnose(first)
    inner = weigh(kept, whole)
    outcome = "completed" if caught else _outcome(first, bool(inner.diagnoses), kept.exit_status)
    unseen = first.raised is None and needs_record(first)
    wanted = match is not None or inner.diagnoses or is_asked(first.signs) or unseen
    about = (*inner.notes, *_second_run(first.extras)) if wanted else _listed(first.sources, raised)
    if outcome == "completed" and not inner.diagnoses and not about:
        about = weak_signs(first) or _cut_on_purpose(kept, first, whole) or _too_long(first.extras)
    if inner.diagnoses or about:
        about = (*about, *_warnings(first, {f"{s.file}:{s.line}" for d in inner.diagnoses for s in d.spans}))
    if GRADIENTS_ASKED_FOR in kept.request.mode.split(":"):
        about = (*about, *gradients(first))
    return Report(run, outcome, exception, inner.diagnoses, (*notes, *about), inner.sources, picture=inner.picture)


def _trains_no_more(evidence: Evidence) -> bool:
    """Whether nothing was trained after an error that the program caught: backward calls have all failed since."""
    raised = evidence.raised
    return raised is not None and raised.in_a_row >= CALLS_IN_A_ROW and bool(evidence.optimizers)


def _of_caught(evidence: Evidence, everything: bool) -> str:
    """The note of an error that the program caught."""
    raised = evidence.raised
    if raised is not None and _trains_no_more(evidence):
        return f"the program catches this error and goes on: its last {raised.in_a_row} backward calls all failed"
    said = f"an autograd error was raised{_at(raised)} and caught by the program"
    if everything:
        return said
    return f"{said}: {one_line(evidence.message, 160)}. `graphdoc run --audit all` tells its cause."


def weigh(kept: Kept, report: Report) -> Report:
    """The report without what the user has said to ignore of a run that went on, and without what is only possible of
    it, unless he has asked for everything."""
    if report.outcome == "autograd-failure":
        return report
    everything = AUDIT_ALL in kept.request.mode.split(":")
    told = not_ignored(report.diagnoses, report.sources, kept.cwd)
    return replace(report, diagnoses=tuple(d for d in told if everything or d.confidence != "possible"))


def _cut_on_purpose(kept: Kept, evidence: Evidence, report: Report) -> tuple[str, ...]:
    """One line on parameters that an optimizer holds and the program itself cuts off: silence would say that they
    learn. None where the user has said to ignore it."""
    cut = not_ignored(report.diagnoses, report.sources, kept.cwd)[:1] if evidence.as_if is not None else ()
    return tuple(f"{d.title}. If that is not meant, `graphdoc run --audit all` tells more." for d in cut)


def _picture(evidence: Evidence) -> Picture:
    """What a page draws. A fault of our own there takes the drawing, not the diagnosis."""
    try:
        return picture_of(evidence)
    except Exception as e:
        return Picture(gaps=(f"The picture could not be made: {type(e).__name__}: {e}",))


def _outcome(evidence: Evidence, found: bool, status: int) -> Outcome:
    """What ended the run: a fault that was found without an error of autograd's has not."""
    if found and not evidence.went_on and (_match(evidence.sources, evidence.raised) is not None or not evidence.signs):
        return "autograd-failure"
    return "other-failure" if status else "completed"


def fix_of(remedy: Remedy, evidence: Evidence) -> Fix:
    """A remedy as it is told: what it is called is what ``graphdoc fix`` will go by."""
    safety = safety_of(remedy, evidence.went_on or can_go_on(evidence.raised))
    called = remedy.safety if safety != remedy.safety else ""
    title = begins_small(in_lines(remedy.title, _files(evidence)))
    note = in_lines(remedy.note, _files(evidence), sentence=True)
    return Fix(remedy.kind, title, safety, note=note, called=called, placeholders=remedy.placeholders)


def _files(evidence: Evidence) -> Collection[str]:
    """The files of the program; a log tells of some of them only, so none are known."""
    return () if evidence.from_text else evidence.sources.keys()


def _diagnosis(found: Found, evidence: Evidence) -> Diagnosis:
    finding = by_the_rules(found.finding, _files(evidence))
    return Diagnosis(
        code=found.cause.code,
        cause=found.cause.slug,
        confidence=finding.confidence,
        title=finding.title,
        explanation=finding.explanation,
        spans=tuple(dict.fromkeys(finding.spans)),
        facts=finding.facts,
        fixes=tuple(fix_of(r, evidence) for r in finding.remedies),
        because=finding.because,
        proof=getattr(finding.confidence, "proof", ""),
        remedies=tuple(finding.remedies),
    )


def _match(sources: SourceTexts, raised: Raised | None) -> Match | None:
    """The known autograd error that the exception, or one behind it, carries."""
    if raised is None:
        return None
    named = [(raised.type, raised.message)]
    for text in raised.causes:
        name, _, message = text.partition(": ")
        named.append((name, message))
    for name, message in named:
        match = recognise_exception(name, message)
        if match is None or (match.kind != "error" and not name.endswith("Warning")):
            continue  # a filter (-W error) makes an error of a warning
        if match.generic and not (_raised_in_torch(sources, raised, name) or _reads_a_gradient(sources, raised)):
            continue  # words that any program prints: something else must speak for autograd
        return match
    return None


def _listed(sources: SourceTexts, raised: Raised | None) -> tuple[str, ...]:
    """Where PyTorch raises a message that nothing more is known of; none where the program's own code raised it."""
    if raised is None or not _raised_in_torch(sources, raised, raised.type):
        return ()
    files = [frame.file for frame in raised.stack[-1:-5:-1] if not frame.user]
    match = listed_of(raised.type, raised.message, files)
    return (match.means,) if match is not None else ()


def _raised_in_torch(sources: SourceTexts, raised: Raised | None, kind: str) -> bool:
    """Whether torch raised it: from its Python code, or from C++ out of a line that raises nothing itself."""
    stack = raised.stack if raised else []
    if not stack or not stack[-1].user:
        # Any call of a module can have too many arguments: a Function's methods are called by torch.autograd.
        return bool(stack) and (called_by_autograd(raised) if kind == "TypeError" else "torch" in stack[-1].file)
    return kind in ("RuntimeError", "IndexError") and not line_text(sources, stack[-1]).startswith("raise")


def _reads_a_gradient(sources: SourceTexts, raised: Raised) -> bool:
    """Whether a None was met on a line that reads ``.grad``: an ordinary exception with autograd behind it."""
    return met_none(raised.message) and ".grad" in line_text(sources, innermost_user(raised.stack))


def _unexplained(match: Match, raised: Raised | None) -> str:
    """What is known of an error that no cause was found for: what it means, what to do about it and where."""
    means = match.means.rstrip(".")
    known = [c for c in all_causes() if c.slug in match.causes]
    out = way_out(match.id)
    if not known and out is not None:
        return f"{_placed(means.partition('; ')[0], raised)}. {out.told}"
    if not known:
        return f"{means}. Nothing in the graph was found at fault."
    names = ", ".join(f"{c.slug} ({c.code})" for c in known)
    return f"{means}. The run does not show which cause it has; the message allows {names}."


def _made_at(failing_node: Node | None, raised: Raised | None) -> str:
    """Where the function was called whose backward gave something that is not a number."""
    node = failing_node if message_of(raised, "nan-gradient") else None
    frame = innermost_user(node.stack) if node is not None else None
    return f" The function was called at {frame.file}:{frame.line}." if frame is not None else ""


def _at(raised: Raised | None) -> str:
    frame = innermost_user(raised.stack) if raised else None
    return f" at {frame.file}:{frame.line}" if frame else ""


def _placed(means: str, raised: Raised | None) -> str:
    """What a message means, behind the place of it."""
    at = _at(raised).strip()
    return f"{at}: {begins_small(means)}" if at else means


def _warnings(evidence: Evidence, told: set[str]) -> Iterator[str]:
    """What PyTorch has warned of besides, where, and the way out; what a cause may have is left to that, and so is
    what a diagnosis has ``told`` of that line."""
    for line in dict.fromkeys(evidence.warnings):
        place, _, text = line.partition(": ")
        match = recognise_exception("UserWarning", text)
        if match is None or match.exception != "UserWarning" or match.family == "anomaly" or place in told:
            continue
        out = way_out(match.id)
        if out is not None and not out.own:
            note = f"PyTorch warned at {place}: {begins_small(redact(text.rstrip('.')))}. {out.told}"
            yield in_lines(note, _files(evidence))


def _too_long(extras: dict[str, Any]) -> tuple[str, ...]:
    """That a sign was not looked at closer for the time it takes: silence would say that nothing is wrong."""
    from graphdoc.probe import TOO_LONG

    return tuple(line for line in _second_run(extras) if line.endswith(TOO_LONG))


def _second_run(extras: dict[str, Any]) -> tuple[str, ...]:
    told = extras.get("second_run")
    return (told,) if isinstance(told, str) and told else ()


# Findings that the user has said to leave alone: by code in the project's settings (`ignore = ["GD705"]` in
# [tool.graphdoc]), or in a comment on the line (`# graphdoc: ignore[GD705]`). Only of a run that went on: what ended a
# program is always told.

_COMMENT = re.compile(r"#\s*graphdoc:\s*ignore\[([^\]]*)\]")


def not_ignored(told: Sequence[Diagnosis], sources: Mapping[str, str], folder: Path) -> tuple[Diagnosis, ...]:
    """Those that neither the settings of somebody who stands in ``folder`` nor a comment at their cause leave alone."""
    try:
        codes = settings_of(folder)[1].get("ignore", ())
    except UsageError:  # whoever reads the settings for their options says so
        codes = ()
    everywhere = set(codes) if isinstance(codes, list) else set()
    return tuple(d for d in told if d.code not in everywhere and d.code not in _at_its_lines(d, sources))


def _at_its_lines(diagnosis: Diagnosis, sources: Mapping[str, str]) -> set[str]:
    """The codes in comments on the lines of its causes."""
    found: set[str] = set()
    for span in diagnosis.spans:
        if span.role == "cause":
            lines = sources.get(span.file, "").splitlines()[span.line - 1 : max(span.line, span.end_line)]
            for comment in _COMMENT.finditer("\n".join(lines)):
                found |= set(re.findall(r"GD\d{3}", comment[1]))
    return found
