"""What launchers and CI put in front of a program's line: time stamps, rank labels, container names, quote marks."""

from __future__ import annotations

import re

from graphdoc.messages.flat_text import ESCAPES

# A line of a log is cut here: what matters of a line stands at its beginning.
LONGEST_LINE = 20_000
# A line can carry several of them: a CI's time stamp, a container's name, a rank.
_MOST = 6

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_STAMP = re.compile(rf"\[?{_TIME}\]?(?:[ \t]|$)|\[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?[ \t]")
_JOB = re.compile(rf"[^\t\n]{{1,200}}\t[^\t\n]{{1,200}}\t(?={_TIME})")  # gh run view --log: job, step, time
_MARK = re.compile(r"##\[\w{1,20}\]|(?:> ?){1,8}(?!>)|E {3,12}(?=\S)|\[stderr\] ?|<stderr>:? ?")
# Each of these names the process that wrote the line.
_LABEL = re.compile(
    r"\[(?:rank|default|worker|node|trainer)[ _-]?(?P<rank>\d{1,6})\]:? ?"
    r"|\[(?P<plain>\d{1,6})\]: ?"  # mpi, accelerate
    r"|\[\d{1,6},(?P<mpi>\d{1,6})\](?:<(?:stderr|stdout)>)?: ?"
    r"|\[Rank (?P<worded>\d{1,6})\]:? ?"
    r"|(?P<srun>\d{1,6}): (?=\S| {2})"
    r"|\((?P<actor>\w{0,80}(?: pid=\d{1,10})[^)\n]{0,160})\) ?"  # ray
    r"|\((?P<pid>pid=\d{1,10}[^)\n]{0,160})\) ?"
    r"|(?P<service>[A-Za-z][\w.-]{0,80}) {0,40}\| ?"  # docker compose
    r"|\[(?P<pod>pod/[^\]\n]{1,160})\] ?"
)
# Colours whose escape character was lost on the way.
_ORPHAN = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m")
_RANK = re.compile(r"(?:^| )rank (\d{1,6})$")


def peel(line: str) -> tuple[str, str, bool]:
    """A line of a log without its decoration: (label of the process, text, whether anything was taken off).

    The label is empty where none is written. Only the text may still hold control characters other than escapes.
    """
    line = line[:LONGEST_LINE]
    if "\x1b" in line:
        line = ESCAPES.sub("", line)
    if "\x00" in line:
        line = line.replace("\x00", "")
    if "m" in line and "[" in line:
        line = _ORPHAN.sub("", line)
    labels: list[str] = []
    start = line
    for _ in range(_MOST):
        first = line[:1]
        if not first or first == " " or first == "\t":
            break
        found = _STAMP.match(line) if first.isdigit() or first == "[" else None
        found = found or (_MARK.match(line) if first in "#>E[<" else None)
        if found is None:
            found = _LABEL.match(line)
            if found is None and "\t" in line:
                found = _JOB.match(line)
            elif found is not None:
                labels.append(_name(found))
        if found is None:
            break
        line = line[found.end() :]
    return " ".join(labels), line, line is not start


def rank_of(label: str) -> int:
    """The rank that a label ends with (``rank 3``), or -1: the number of a container or a process is no rank."""
    found = _RANK.search(label)
    return int(found.group(1)) if found else -1


def _name(found: re.Match[str]) -> str:
    kind, text = next((k, v) for k, v in found.groupdict().items() if v is not None)
    return text if kind in ("actor", "pid", "service", "pod") else f"rank {int(text)}"
