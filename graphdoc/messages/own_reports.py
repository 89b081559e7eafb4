"""Reports of graphdoc's own in a text: where one begins and ends; each is read as a terminal shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

BEGINS = re.compile(
    r"(?:error|warning)\[GD\d{3}\]: |### (?:error|warning) GD\d{3}: |::(?:error|warning) title=GD\d{3} "
)
"""The first line of one for a terminal, in Markdown, or of an annotation as the job has written it."""
_LONGEST = 120
_PLACE = re.compile(r" *(?:-->|[|=]) ")
# What can follow in a terminal once a place was told.
_ROW = re.compile(r"\s|\d+ |$|how it happened:|(?:help|tried|also|note|looked closer): |(?:try|apply|print|fix) it: ")
_MARKDOWN = re.compile(r"### (error|warning) (GD\d{3}): (.*)")
_ANNOTATION = re.compile(
    r"::(error|warning) title=(GD\d{3}) ([^,]*)(?:,file=([^,]+),line=(\d+))?(?:,\w+=[^,:]*)*::(.*)"
)
_AT = re.compile(r"^ *--> (.+:\d+):\d+$", re.MULTILINE)
_COLUMN = re.compile(r",col=(\d+)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>#!|~$@&])")
_SURE = re.compile(r"(?:- \*\*)?(certain|likely|possible):(?:\*\*)? (.*)")
_LABELS = {"**Fix:** ": "help: ", "**Tried:** ": "tried: ", "note: ": "   = note: "}
_LABELS |= {"More: ": "   = more: ", "more: ": "   = more: "}


def goes_on(lines: Sequence[str], line: str) -> bool:
    """Whether a line belongs to the report that these lines are the beginning of."""
    if not lines:
        return True
    if lines[0].startswith("::"):
        return False
    if lines[0].startswith("###"):
        return not lines[-1].startswith("More: ") and len(lines) < 4 * _LONGEST
    placed = any(_PLACE.match(known) for known in lines)
    return len(lines) < _LONGEST and (not placed or _ROW.match(line) is not None)


def about(text: str) -> str:
    """The code and the line of a report as it is shown: a job has one report in several formats."""
    place = _AT.search(text)
    return text[text.find("[") :][:7] + (place[1] if place else "")


def as_shown(lines: Sequence[str]) -> str:
    """The report in the words and the order of a terminal's."""
    if found := _ANNOTATION.match(lines[0]):
        level, code, title, file, line, message = found.groups()
        column = _COLUMN.search(lines[0][: found.start(6)])
        told, *rest = _plain(message).split("\n")
        place = [f"  --> {_plain(file)}:{line}:{column[1] if column else 1}"] if file else []
        return "\n".join([f"{level}[{code}]: {_plain(title)}", told, *place, *(_labelled(one) for one in rest)])
    if found := _MARKDOWN.match(lines[0]):
        title = _ESCAPED.sub(r"\1", found[3])
        return "\n".join([f"{found[1]}[{found[2]}]: {title}", *_of_markdown(lines[1:])])
    return "\n".join(lines)


def _plain(text: str) -> str:
    for mark, of in (("%0A", "\n"), ("%0D", ""), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(mark, of)
    return text


def _labelled(line: str, dash: str = "") -> str:
    if sure := _SURE.match(line):
        return f"   = {sure[1]}: {sure[2]}"
    labels = _LABELS | {"- ": dash}
    return next((label + line[len(mark) :] for mark, label in labels.items() if line.startswith(mark)), line)


def _of_markdown(lines: Sequence[str]) -> list[str]:
    """The lines without fences; the plain sentence stands below the title, where a terminal has it."""
    told: list[str] = []
    rest: list[str] = []
    fence, dash = "", _LABELS["note: "]
    for line in lines:
        if fence or line.startswith("```"):
            ticks = line[: len(line) - len(line.lstrip("`"))]
            fence = (ticks if not fence else "") if len(ticks) > 2 and ticks.startswith(fence) else fence
            rest += [line] if not ticks else []
        elif line.startswith("<"):
            dash = "other fix: "
        elif line.strip():
            shown = _labelled(_ESCAPED.sub(r"\1", line), dash)
            plain = not shown.startswith((" ", "help", "tried", dash))
            (told if plain and not told else rest).append(shown)
    return [*told, *rest]
