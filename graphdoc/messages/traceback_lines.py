"""Lines of tracebacks as Python, IPython, pytest and anomaly mode print them, and whose code they show."""

from __future__ import annotations

import re

from graphdoc.evidence import Frame
from graphdoc.messages.flat_text import clean

TRACEBACK = "Traceback (most recent call last)"
FORWARD = "Traceback of forward call that"

_FRAME = re.compile(r'[ \t]{0,200}(?:[|+][ \t]{0,8})?File "([^"\n]{1,1000})", line (\d{1,9})(?:, in ([^\n]{1,300}))?')
# IPython before 8: "~/x/train.py in step(self, batch)" or "<ipython-input-3-1f2> in <module>", then "----> 7 code".
_IPYTHON = re.compile(r"(<ipython-input-[^>\n]{1,80}>|[~./\w][^\s:]{0,400}\.py) in (<?\w{1,200}>?)(?:\(|$)")
_ARROW = re.compile(r"-{1,8}> {0,4}(\d{1,9})(?: |$)(.{0,500})")
# IPython from 8 on: "File ~/x/train.py:12, in step(self)" and "Cell In[3], line 7, in f()".
_MODERN = re.compile(r"File ([^\s:][^:\n]{0,400}):(\d{1,9})(?:, in (<?\w{1,200}>?))?")
_CELL = re.compile(
    r"(?:Cell |Input )(In ?\[\d{1,6}\])(?:, | in )(?:line (\d{1,9})|<cell line: (\d{1,9})>)(?:, in (\w{1,200}))?"
)
_PYTEST = re.compile(r"([\w./\\-]{1,400}\.py):(\d{1,9}): (?:in (\w{1,200})|[\w.]{0,200}$)")

_ELSEWHERE = re.compile(
    r"[/\\](?:site-packages|dist-packages)[/\\]"
    r"|[/\\][Pp]ython\d{2,3}[/\\][Ll]ib[/\\]|[/\\]envs[/\\][^/\\]{1,80}[/\\][Ll]ib[/\\]"  # Windows
    r"|[/\\]lib(?:64)?[/\\]python\d"
    r"|[/\\]torch[/\\](?:autograd|nn|optim|utils|_dynamo|_functorch|_inductor|amp|func|distributed|_ops|_tensor|csrc)\b"
    r"|^<frozen |^<__array_function__|^<string>$|^<decorator-gen"
    r"|^torch[/\\](?:autograd|nn|optim|utils|_tensor)\b"
    r"|^site-packages[/\\]"
)


def is_user(file: str) -> bool:
    """Whether a file, as a traceback names it, is the user's own code: not torch, site-packages or Python's library."""
    return _ELSEWHERE.search(file) is None


def frame_in(line: str) -> Frame | None:
    """The frame that a line of a traceback names, or None. IPython's old form has its line number below: 0 here."""
    if 'File "' in line and (found := _FRAME.match(line)):
        return _frame(found.group(1), found.group(2), found.group(3))
    if line[:1] in " \t":
        return None
    if line.startswith("File "):
        found = _MODERN.match(line)
        return _frame(*found.groups()) if found else None
    if line.startswith(("Cell ", "Input ")):
        found = _CELL.match(line)
        return _frame(found.group(1), found.group(2) or found.group(3), found.group(4)) if found else None
    named = ".py" in line or line.startswith("<ipython")
    if named and (found := _IPYTHON.match(line)):
        return _frame(found.group(1), "0", found.group(2))
    found = _PYTEST.match(line) if named else None
    return _frame(*found.groups()) if found else None


def arrow_in(line: str) -> tuple[int, str] | None:
    """Line number and code that an IPython arrow points at (``----> 12 loss.backward()``), or None."""
    found = _ARROW.match(line)
    return (int(found.group(1)), clean(found.group(2)).strip()) if found else None


def _frame(file: str, line: str, function: str | None) -> Frame:
    file = clean(file)
    return Frame(file=file, line=int(line), function=clean(function or "").strip(), user=is_user(file))


_TYPE = (
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}"
    r"(?:\w{0,80}(?:Error|Exception|Warning|Interrupt|Exit|Unsupported|Failure|Timeout|Iteration)"
    r"|[A-Z][a-z0-9]{1,40}[A-Z]\w{1,60})"
)
_RAISED = re.compile(rf"(?:E +)?({_TYPE})(?:: ?(.*)|$)", re.DOTALL)
_HEADED = re.compile(rf"({_TYPE}) {{3,200}}{re.escape(TRACEBACK)}")
_WARNED = re.compile(r"(?:^|[ :])(\w{0,40}Warning): (.{1,4000})", re.DOTALL)
_WARNED_AT = re.compile(r"([^\s:][^:\n]{0,400}\.py):(\d{1,9}): \w{0,40}Warning: ")
_CPP_WARNED = re.compile(r"\[W[^\]\n]{0,120}\] ?(?:Warning: )?(.{1,4000})", re.DOTALL)
_DETECTED = re.compile(r"(?:Error detected in|induced by) ([\w.:<>]{1,160})\.")


def raised_in(line: str) -> tuple[str, str] | None:
    """Type and first line of the message, where a line is the last one of a traceback; else None."""
    found = _RAISED.match(line)
    return (found.group(1), found.group(2) or "") if found else None


def headed_in(line: str) -> str:
    """The exception's type, where IPython prints it beside the head of the traceback; else an empty string."""
    found = _HEADED.match(line)
    return found.group(1) if found else ""


def warned_in(line: str) -> tuple[str, str] | None:
    """Category and text of a warning in a line, printed by Python or by C++; else None."""
    if "Warning: " in line:
        found = _WARNED.search(line)
        if found:
            return found.group(1), found.group(2)
    if line.startswith("[W"):
        found = _CPP_WARNED.match(line)
        if found:
            return "UserWarning", found.group(1)
    return None


def warned_at(line: str) -> Frame | None:
    """The line of the program that Python's own line of a warning begins with; None where that is a library's."""
    found = _WARNED_AT.match(line) if "Warning: " in line else None
    frame = _frame(found.group(1), found.group(2), None) if found else None
    return frame if frame is not None and frame.user else None


def detected_in(line: str) -> str:
    """The node that anomaly mode names ("Error detected in MulBackward0."), or an empty string."""
    found = _DETECTED.search(line)
    return found.group(1) if found else ""
