"""What ``graphdoc explain`` says of the failures in a log: each diagnosed from its text and the code at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from graphdoc.causes import all_causes
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.messages import Failure, evidence_from
from graphdoc.messages.ways_out import way_out
from graphdoc.model import Confidence, Diagnosis, Report, Run, Span
from graphdoc.processes import as_ranks
from graphdoc.program.spans import in_whole_lines, span_of
from graphdoc.render.text import flat

_MOST = 5
_LONGEST_SOURCE = 2_000_000


@dataclass(frozen=True)
class Told:
    """A failure of the log and the report of it."""

    failure: Failure
    report: Report


def tell(failures: Sequence[Failure], folder: Path) -> list[Told]:
    """A report for each known message, errors before warnings, the first ones of a log that has too many.

    Source files below ``folder`` are shown where they agree with the code that the log itself shows.
    """
    reported = [f for f in failures if f.report]
    known = [f for f in failures if f.match is not None and not f.report and _of_torch(f)]
    errors = [f for f in known if f.match and f.match.kind == "error"]
    warnings = [f for f in known if f.match and f.match.kind != "error"]
    # What only the list knows is told where there is nothing else.
    if any(f.match and not f.match.listed for f in known):
        errors, warnings = ([f for f in these if f.match and not f.match.listed] for these in (errors, warnings))
    return [*map(_reported, reported[:_MOST]), *(_tell(f, folder) for f in (errors + warnings)[:_MOST])][:_MOST]


_REPORT = re.compile(
    r"(?P<level>error|warning)\[(?P<code>GD\d{3})\]: (?P<title>.*(?:\n {6,}(?!--> ).*)*)\n?(?P<told>(?:\S.*\n)*)"
    r"(?: *--> (?P<file>.+):(?P<line>\d+):(?P<column>\d+)\n)?"
)
_COMMAND = re.compile(r"^(\s*)::", re.MULTILINE)  # GitHub obeys one at the beginning of a line
_SURE = re.compile(r"= (certain|likely|possible): (.*(?:\n {8,}\S.*)*)")


def _reported(failure: Failure) -> Told:
    """What graphdoc itself has said in this log, which it knew from the run, read back out of its words."""
    told, sure = _REPORT.match(failure.report), _SURE.search(failure.report)
    assert told is not None
    spans: tuple[Span, ...] = ()
    if told["file"]:
        line, column = int(told["line"]), int(told["column"])
        spans = (Span("cause", told["file"], line, column, line, column + 1),)
    slug = next((cause.slug for cause in all_causes() if cause.code == told["code"]), "")
    confidence = cast(Confidence, sure[1]) if sure else "possible"
    words = [flat(text) for text in (told["title"], told["told"], sure[2] if sure else "")]
    found = Diagnosis(told["code"], slug, confidence, words[0], words[1], spans, because=words[2])
    ended = told["level"] == "error"
    return Told(
        failure,
        Report(
            Run(exit_status=int(ended)),
            "autograd-failure" if ended else "completed",
            {"type": failure.type, "message": failure.message} if failure.type else None,
            (found,),
            ("This is graphdoc's own report, as it stands in the log.",),
        ),
    )


def _of_torch(failure: Failure) -> bool:
    """Words that other programs print too count where the traceback shows that gradients are at work."""
    if failure.match is None or not failure.match.generic or not failure.frames:
        return True
    place = failure.place
    code = failure.code.get((place.file, place.line), "") if place else ""
    return ".grad" in code or any("torch" in f.file and not f.user for f in failure.frames)


def _tell(failure: Failure, folder: Path) -> Told:
    from graphdoc.diagnose import diagnose

    evidence = evidence_from(failure)
    stacks = [evidence.raised.stack if evidence.raised else [], *(n.stack for n in evidence.nodes)]
    stacks += [e.stack for e in evidence.events]
    _attach_sources(evidence.sources, [f for stack in stacks for f in stack if f.user], failure, folder)
    report = diagnose(evidence)
    diagnoses = report.diagnoses or _possible(evidence.sources, failure)
    notes = [
        _means(failure, bool(diagnoses)),
        *_places(failure),
        *(n for n in report.notes if n.startswith("the recogniser of ")),
    ]
    if failure.truncated:
        notes.append("The log breaks off inside this traceback.")
    if diagnoses:
        notes.append(
            "This is read from text alone. `graphdoc run SCRIPT` runs the program and names the tensor, the line that "
            "made it and the line at fault, with a patch."
        )
    outcome = "autograd-failure" if diagnoses else report.outcome
    sources = {**_shown_code(evidence.sources, failure), **report.sources}
    return Told(failure, replace(report, outcome=outcome, diagnoses=diagnoses, notes=tuple(notes), sources=sources))


def _means(failure: Failure, explained: bool) -> str:
    match = failure.match
    if match is None:
        return ""
    innocent = not match.listed and match.group == "other" and match.family != "anomaly" and not explained
    out = way_out(match.id) if not explained else None
    if out is not None:
        return f"{match.means.partition('; ')[0].rstrip('.')}. {out.told}"
    if match.kind == "warning" and match.causes:
        return f"{match.means} `graphdoc explain {match.causes[0]}` says more."
    return match.means + (" This is not a fault of the graph." if innocent and "graph" not in match.means else "")


def _possible(sources: SourceTexts, failure: Failure) -> tuple[Diagnosis, ...]:
    """The causes that the message allows, where no recogniser has more to say."""
    match = failure.match
    if match is None or match.kind != "error":
        return ()
    place = failure.place
    spans = in_whole_lines(sources, span_of("failed", place, "noticed here"))
    by_slug = {cause.slug: cause for cause in all_causes()}
    causes = [by_slug[slug] for slug in match.causes if slug in by_slug]
    return tuple(
        Diagnosis(
            c.code, c.slug, "possible", c.title, " ".join(c.page.what_happened.strip().split("\n\n")[0].split()), spans
        )
        for c in causes[:3]
    )


def _places(failure: Failure) -> list[str]:
    """Sentences about what the log itself says of where and who."""
    notes = []
    if failure.forward:
        inner = next((f for f in reversed(failure.forward) if f.user), failure.forward[-1])
        code = failure.code.get((inner.file, inner.line), "")
        node = failure.forward_op or "the failing node"
        notes.append(f"Anomaly mode says that {node} was made at {_at(inner)}" + (f": `{code}`" if code else "") + ".")
    if len(failure.ranks) > 1:
        notes.append(f"The same on {as_ranks(failure.ranks)}.")
    if failure.chain:
        notes.append(f"It was raised while another exception was handled: {failure.chain[-1][:300]}")
    return notes


def _at(frame: Frame) -> str:
    return f"{frame.file}:{frame.line}" + (f", in {frame.function}" if frame.function else "")


def as_text(told: Sequence[Told], fmt: str, width: int, color: bool) -> str:
    """All of them for a reader: ``fmt`` is text or markdown."""
    from graphdoc.render import render
    from graphdoc.render.markdown import fence

    parts = []
    for one in told:
        failure, place = one.failure, one.failure.place
        first, _, rest = failure.message.partition("\n")
        head = f"{failure.type}: {first}" if failure.type else first
        head = head[:400] + ("…" if len(head) > 400 or rest else "")
        where = [f"line {failure.line} of the log"] if failure.line > 1 else []
        where += [f"rank {failure.rank}"] if failure.rank >= 0 and len(failure.ranks) == 1 else []
        where += [f"{failure.count} times"] if failure.count > 1 else []
        if place is not None:
            code = failure.code.get((place.file, place.line), "")
            what = "warned" if failure.match is not None and failure.match.kind == "warning" else "raised"
            where.append(f"{what} at {_at(place)}" + (f": {code}" if code else ""))
        if failure.report:
            where.append("graphdoc's own report stands in the log")
        about = "; ".join(where)
        if failure.report:
            said = _COMMAND.sub(r"\1\\x3a:", failure.report)
            body = f"{fence(said, 'text')}\n" if fmt == "markdown" else f"{said}\n"
        else:
            body = render(one.report, "markdown" if fmt == "markdown" else "terminal", width=width, color=color)
        if fmt == "markdown":
            parts.append(f"### `{head.replace('`', chr(39))}`\n\n" + (f"{_plain(about)}\n\n" if about else "") + body)
        else:
            first = f"{head}\n" if failure.type or not failure.report else ""
            parts.append(first + (f"  {about}\n" if about else "") + "\n" + body)
    return "\n".join(parts)


def _plain(text: str) -> str:
    """Log text inside Markdown: nothing of it may become markup."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|!@" else c for c in text)


def together(told: Sequence[Told]) -> dict[str, Any]:
    """The JSON of ``explain --format json``: the report of the first failure, and all of them under ``failures``."""
    document = merged(told).to_json()
    document["failures"] = [_as_json(one) for one in told]
    return document


def merged(told: Sequence[Told]) -> Report:
    """One report for formats that hold one: the first failure's, with what was found for the others after it."""
    first = told[0].report
    diagnoses: dict[tuple[object, ...], Diagnosis] = {}
    sources: dict[str, str] = {}
    for one in told:
        sources = {**one.report.sources, **sources}
        for d in one.report.diagnoses:
            diagnoses.setdefault((d.code, d.spans), d)
    return replace(first, diagnoses=tuple(diagnoses.values()), sources=sources)


def _as_json(one: Told) -> dict[str, Any]:
    failure, match = one.failure, one.failure.match
    return {
        "type": failure.type,
        "message": failure.message,
        **{name: getattr(match, name, None) for name in ("id", "kind", "family", "group")},
        "fields": dict(match.fields) if match else {},
        "causes": list(match.causes) if match else [],
        "means": match.means if match else "",
        "line": failure.line,
        "count": failure.count,
        "ranks": list(failure.ranks),
        "truncated": failure.truncated,
        **({"report": failure.report} if failure.report else {}),
        "traceback": [_frame(f) for f in failure.frames],
        "forward": [_frame(f) for f in failure.forward],
        "forward_op": failure.forward_op,
        "diagnoses": [d.to_json() for d in one.report.diagnoses],
        "notes": list(one.report.notes),
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line, "function": frame.function, "user": frame.user}


def _shown_code(sources: SourceTexts, failure: Failure) -> dict[str, str]:
    """Sources made of nothing but the lines that the log shows, for files that are not at hand."""
    lines: dict[str, dict[int, str]] = {}
    for (file, line), code in failure.code.items():
        if 0 < line < 100_000:
            lines.setdefault(file, {})[line] = code
    return {
        file: "\n".join(known.get(n, "") for n in range(1, max(known) + 1)) + "\n"
        for file, known in lines.items()
        if file not in sources
    }


def _attach_sources(sources: dict[str, str], frames: list[Frame], failure: Failure, folder: Path) -> None:
    """Read the user's files that the traceback names, where they lie below ``folder`` and say what the log says."""
    for file in {f.file for f in frames}:
        found = _local(file, failure, folder)
        if found is None:
            continue
        name, text = found
        sources[name] = text
        failure.code.update({(name, line): code for (known, line), code in failure.code.items() if known == file})
        for frame in frames:
            if frame.file == file:
                frame.file = name


def _local(file: str, failure: Failure, folder: Path) -> tuple[str, str] | None:
    shown = {line: code for (name, line), code in failure.code.items() if name == file}
    parts = [p for p in file.replace("\\", "/").split("/") if p not in ("", ".", "~")]
    if not shown or ".." in parts:
        return None
    for start in range(max(0, len(parts) - 6), len(parts)):
        path = folder.joinpath(*parts[start:])
        try:
            if path.suffix != ".py" or not path.is_file() or path.stat().st_size > _LONGEST_SOURCE:
                continue
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        lines = text.splitlines()
        if all(0 < n <= len(lines) and lines[n - 1].strip() == code for n, code in shown.items()):
            return "/".join(parts[start:]), text
    return None
