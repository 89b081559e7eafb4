"""A patch for ``git apply`` and ``patch -p1`` from the old and new text of some files."""

from __future__ import annotations

from collections.abc import Mapping

from graphdoc.line_changes import LineMatcher

_MISSING = "\\ No newline at end of file\n"


def unified(old: Mapping[str, str], new: Mapping[str, str], context: int = 3) -> str:
    """The unified diff of all files in ``new`` that differ, with ``a/`` and ``b/`` headers; empty where none does.

    Lines end at ``\\n`` alone, as they do for git: a carriage return belongs to its line. The text is to be written
    with ``newline=""`` and, for a file that is not UTF-8, in that file's encoding.
    """
    changed = {file: old.get(file, "") for file, text in new.items() if old.get(file, "") != text}
    return "".join(_one(file, before, new[file], context) for file, before in changed.items())


def _one(file: str, before: str, after: str, context: int) -> str:
    left, right = _lines(before), _lines(after)
    # Equal heads and tails are most of a file and need no matcher.
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    start = max(0, head - context)
    stop = max(0, tail - context)
    a, b = left[start : len(left) - stop], right[start : len(right) - stop]
    out = [f"--- {_header('a', file)}\n", f"+++ {_header('b', file)}\n"]
    for group in LineMatcher(a, b).get_grouped_opcodes(context):
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        out.append(f"@@ -{_range(i1 + start, i2 - i1)} +{_range(j1 + start, j2 - j1)} @@\n")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                out += _marked(" ", a[i:i_end])
            else:
                out += _marked("-", a[i:i_end])
                out += _marked("+", b[j:j_end])
    return "".join(out)


def _lines(text: str) -> list[str]:
    whole, ended, rest = text.rpartition("\n")
    lines = [line + "\n" for line in whole.split("\n")] if ended else []
    return [*lines, rest] if rest else lines


def _marked(mark: str, lines: list[str]) -> list[str]:
    return [mark + line if line.endswith("\n") else f"{mark}{line}\n{_MISSING}" for line in lines]


def _range(start: int, length: int) -> str:
    begin = start + 1 if length else start
    return f"{begin}" if length == 1 else f"{begin},{length}"


def _header(side: str, file: str) -> str:
    name = f"{side}/{file}"
    if any(c in name for c in '"\\\n\r\t'):
        escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return '"' + escaped.replace("\r", "\\r") + '"'
    return name + "\t" if " " in name else name  # the tab ends a name that holds blanks
