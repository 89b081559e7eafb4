"""The messages among the strings of torch's shared libraries: what the C++ side checks, raises and warns with.

Where a value is put into a message, the compiler keeps the pieces around it as strings of their own, and where they
stand in the library says nothing about which belong together: each telling piece is an entry.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path

_LIBRARIES = re.compile(r"lib(?:torch_cpu|torch_python|torch|c10)\.(?:so|dylib)$")
# What the C++ side's formatting replaces: printf's marks and fmt's braces.
_INSERTED = re.compile(r"%(?:zd|ld|lu|d|s|i|u|R|S)|\{\}")
# A C string of printable text; strings of symbols and of code are told apart afterwards.
_STRING = re.compile(rb"(?<=\x00)[\x20-\x7e\n]{20,1200}(?=\x00)")
# Words in the text of a message; symbols, schemas of operators, embedded sources and help texts have other marks.
_SENTENCE = re.compile(r"[A-Za-z`'\"(]+[,:;]? [a-z`'\"(]+")
_NO_MESSAGE = re.compile(
    r"->|\bdef |\breturn |#include|::.*\(.*\) const|\b(?:auto|const|struct|namespace|template|void) |at::|"
    r"Expected .{1,200} to be true, but got false|INTERNAL ASSERT|^[\w:]+\(|\.\. \w+::|Args:|Example|>>>|"
    r"\bself\.\w+ = |=\s*\w+\(|==|&&|\|\||;\s*$|^\s*[#@]|\bclass [A-Z]|import |Shorthand for|\{\}\(|\n.*\n.*\n.*\n"
)
# Texts of help, of options and of traces, that no check prints; what the libraries built in print about themselves.
_PROSE = re.compile(
    r"^(?:See |Returns?\b|This function |Context-manager|Gets? |Sets? |Computes? |If set|After |Before |Running )|"
    r"^Saved |%s:%d|oneMKL|oneDNN|primitive descriptor|[xX][nN][nN][pP][aA][cC][kK]|<br>|\S{90}|air-alias|omnipotent|"
    r"`axes`|half_pixel|running average|optimized tensors|gradient tensor|[Nn]esterov|backward solving|target value|"
    r"new momentum|attribute \"|this leaf|each leaf|targeted tensor|to be optimized|sub-graph|Hooks for compiling|"
    r"^Guard on|Trace will be|Cache miss|DDP Initialized|Reducer initialized|^Reducer: |fully_qualified|"
    r"Gradient comm|TRIG_TRANSFORM|trig_transform|GradOf|embedded backward|backprop block|grad field is|"
    r"SDK Version|ONNX|Trigonometric|[Jj]acobi matrix|FFTW|nomnigraph|squared-gradient|interior node"
)


def messages_in(package: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """(text, library) of every string below ``package``/torch/lib that reads like a wanted message."""
    for path in sorted((package / "torch" / "lib").iterdir()):
        if not _LIBRARIES.match(path.name) or not path.stat().st_size:
            continue
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
            for found in _STRING.finditer(view):
                text = found.group().decode("ascii")
                if _reads_like_a_message(text) and wanted.search(text):
                    text = _INSERTED.sub("⟨value⟩", text)
                    yield " ".join(text.split()), path.name.split(".")[0]


def _reads_like_a_message(text: str) -> bool:
    if text.count(" ") < 3 or _NO_MESSAGE.search(text) or _PROSE.search(text.strip()):
        return False
    letters = sum(c.isalpha() or c == " " for c in text)
    return letters > 0.75 * len(text) and _SENTENCE.search(text) is not None
