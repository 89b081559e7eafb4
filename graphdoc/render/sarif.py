"""SARIF 2.1.0 for code scanning: the story as a code flow, the patch as replacements."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote

from graphdoc.address import page_address
from graphdoc.line_changes import Change, parse
from graphdoc.model import Diagnosis, Fix, Report, Span
from graphdoc.render import story
from graphdoc.render.json import document
from graphdoc.render.text import clip, flat
from graphdoc.version import __version__

BEGINS = re.compile(r'\{\s*"\$schema": "https://json\.schemastore\.org/sarif.{0,200}"name": "graphdoc"', re.DOTALL)

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_LONGEST = 1024  # characters that GitHub takes of a rule's descriptions
_MOST_PLACES = 100  # that GitHub shows of one result
_MOST_RESULTS = 5000  # that GitHub keeps of one run


def render(report: Report, *, width: int, color: bool) -> str:
    """One SARIF log with one run.

    Empty results of a run that was observed close older alerts; of any other ``executionSuccessful`` is false.
    """
    missing = story.not_observed(report)
    level = "warning" if report.observed.complete else "error"
    said = [{"level": level, "message": {"text": missing}}] if missing else []
    codes = list(dict.fromkeys(d.code for d in report.diagnoses))
    seen: dict[str, int] = {}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "graphdoc",
                "semanticVersion": __version__,
                "rules": [_rule(next(d for d in report.diagnoses if d.code == code)) for code in codes],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not missing,
                "toolExecutionNotifications": [
                    *said,
                    *({"level": "note", "message": {"text": flat(note)}} for note in report.notes if flat(note)),
                ],
            }
        ],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "the root of the checked-out repository"}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, d, codes.index(d.code), seen) for d in report.diagnoses[:_MOST_RESULTS]],
        "properties": {"outcome": report.outcome, "run": report.run.to_json()},
    }
    return document({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(diagnosis: Diagnosis) -> dict[str, Any]:
    """The cause's page as a rule; a cause that the catalogue lacks describes itself."""
    from graphdoc.causes import find

    cause = find(diagnosis.code)
    if cause is None:
        title, full, help_text, markdown = diagnosis.title, diagnosis.explanation, diagnosis.explanation, ""
    else:
        page = cause.page
        title, full = cause.title, page.what_happened
        prose = [page.what_happened, page.why, page.fix_safety, page.not_this]
        help_text = "\n\n".join(part.strip() for part in prose if part.strip())
        markdown = (
            f"{page.what_happened.strip()}\n\n{page.why.strip()}\n\n```python\n{page.example.strip()}\n```\n\n"
            f"Use instead:\n\n```python\n{page.use_instead.strip()}\n```\n\n{page.fix_safety.strip()}\n"
        )
    address = page_address(diagnosis.code)
    return {
        "id": diagnosis.code,
        "name": "".join(word.capitalize() for word in diagnosis.cause.split("-")),
        "shortDescription": {"text": clip(flat(title), _LONGEST)},
        "fullDescription": {"text": clip(flat(full), _LONGEST)},
        **({"helpUri": address} if address else {}),
        "help": {"text": help_text, **({"markdown": markdown} if markdown else {})},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["pytorch", "autograd"]},
    }


def _result(report: Report, diagnosis: Diagnosis, index: int, seen: dict[str, int]) -> dict[str, Any]:
    place = story.main_place(diagnosis)
    others = [s for s in story.in_order(diagnosis.spans) if s is not place][:_MOST_PLACES]
    said = flat(diagnosis.explanation)
    heads = (diagnosis.confidence.capitalize(), "Note")
    proof = [f"{head}: {words}." for head, words in zip(heads, story.evidence(diagnosis), strict=False)]
    new = [line for line in proof if line.partition(": ")[2].removesuffix(".") not in said]
    text = " ".join([f"{flat(diagnosis.title)}.", said, *new])
    name = story.fingerprint(report, diagnosis)
    seen[name] = seen.get(name, 0) + 1
    result: dict[str, Any] = {
        "ruleId": diagnosis.code,
        "ruleIndex": index,
        "level": story.level(report),
        "message": {"text": text},
        "locations": [_location(place)] if place else [],
        "relatedLocations": [{"id": i, **_location(s)} for i, s in enumerate(others, start=1)],
        "partialFingerprints": {"graphdocPlace/v1": f"{name}:{seen[name]}"},
        "properties": {"cause": diagnosis.cause, "confidence": diagnosis.confidence},
    }
    flow = [s for s in story.in_order(diagnosis.spans) if s.role != "related"][:_MOST_PLACES]
    if len(flow) > 1:
        steps = [
            {"location": _location(s), "importance": "essential" if s.role == "cause" else "important"} for s in flow
        ]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    fixes = [_fix(fix) for fix in diagnosis.fixes if parse(fix.diff)]
    if fixes:
        result["fixes"] = fixes
    return result


def _location(span: Span) -> dict[str, Any]:
    line, column = max(1, span.line), max(1, span.column)
    end_line = max(line, span.end_line)
    end_column = max(column if end_line == line else 1, span.end_column)
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    text = story.label(span)
    return {
        "physicalLocation": {"artifactLocation": _artifact(span.file), "region": region},
        **({"message": {"text": text}} if text else {}),
    }


def _artifact(file: str) -> dict[str, str]:
    path = story.repository_path(file).encode("utf-8", "backslashreplace").decode()
    if path.startswith("/"):
        return {"uri": f"file://{quote(path)}"}
    return {"uri": quote(path), "uriBaseId": _ROOT}


def _fix(fix: Fix) -> dict[str, Any]:
    changes = [
        {
            "artifactLocation": _artifact(os.path.join(fix.base, file.path)),
            "replacements": [_replacement(c) for c in file.changes],
        }
        for file in parse(fix.diff)
    ]
    left = f"; fill in {story.to_fill_in(fix)}" if story.to_fill_in(fix) else ""
    return {
        "description": {"text": f"{flat(fix.title)} [{story.badge(fix)}]{left}"},
        "artifactChanges": changes,
        **({"properties": {"placeholders": dict(fix.placeholders)}} if left else {}),
    }


def _replacement(change: Change) -> dict[str, Any]:
    """The same change as a region that goes and the text that takes its place."""
    eol = "\r\n" if any(line.endswith("\r") for line in (*change.old, *change.new)) else "\n"
    text = eol.join(line.removesuffix("\r") for line in change.new)
    line, column = change.old_start, 1
    end_line, end_column = line, 1
    keeps_newline = change.new_newline >= change.old_newline
    if change.old and ((change.new and keeps_newline) or not change.old_newline):
        end_line = line + len(change.old) - 1  # the newline of the last line, if it has one, stays
        end_column = len(change.old[-1].removesuffix("\r")) + 1
        text += eol if change.new and change.new_newline > change.old_newline else ""
    elif change.old:
        end_line = line + len(change.old)
    elif change.before is not None and change.new_newline:
        line = end_line = line - 1  # the end of the line above, which exists even at the end of the file
        column = end_column = len(change.before.removesuffix("\r")) + 1
        text = eol + text
    else:
        text += eol if change.new_newline else ""
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    return {"deletedRegion": region, "insertedContent": {"text": text}}
