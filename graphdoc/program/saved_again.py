"""Where a custom Function saves tensors in more than one call, of which only the last one counts."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings


@dataclass(frozen=True)
class SavedAgain:
    """Two calls of ``save_for_backward`` in one forward, and where its backward unpacks what was saved."""

    calls: list[Frame]
    unpacked: Frame


def saved_again(sources: SourceTexts) -> SavedAgain | None:
    """The first Function of the sources that does."""
    for file, backward in bindings.methods_named(sources, "backward", "ctx"):
        unpacked = [
            n for n in ast.walk(backward) if isinstance(n, ast.Assign) and "saved_tensors" in bindings.text_of(n)
        ]
        saves = [f for f in bindings.calls_named(sources, "save_for_backward") if f.file == file]
        above = [f for f in saves if f.line < backward.lineno][-2:]
        if unpacked and len(above) == 2 and len({_function_of(sources, f) for f in above}) == 1:
            return SavedAgain(above, bindings.frame_of(sources, file, unpacked[0]))
    return None


def _function_of(sources: SourceTexts, frame: Frame) -> int:
    root = bindings.tree(sources, frame.file)
    function = bindings.function_around(root, frame.line) if root else None
    return function.lineno if function else 0
