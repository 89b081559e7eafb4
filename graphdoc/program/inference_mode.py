"""Where tensors were made in inference mode: the decorator or the block, and the line that took them out of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program.bindings import assignments, frame_of, tree
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.program.tensors import Reached, frames, reached

MODE = "inference_mode"


@dataclass(frozen=True)
class Origin:
    """``switch`` is the decorator or the expression of the ``with``; ``decorated`` tells which.

    ``taken`` is the expression whose value left inference mode, None where it is not known; ``name`` what it is bound
    to; ``sure``: the journal and the source say the same.
    """

    switch: Frame | None
    decorated: bool
    taken: Frame | None
    name: str
    sure: bool


def origin_of(program: Program) -> Origin:
    """What is known of where the inference tensors near the failure came from."""
    switches = program.evidence.extras.get("switches")
    journal = frames(switches.get(MODE)) if isinstance(switches, dict) else []
    written = _written(program.sources)
    near = _near(program.evidence.extras)
    # What the failing calls themselves read or write says most.
    near.sort(key=lambda t: not _read_by_call(program.sources, program.raised, t))
    for tensor in near:
        for frame, value in _assigned(program.sources, program.raised, tensor):
            seen = any(f.file == frame.file and frame.line <= f.line <= frame.end_line for f in journal)
            inside = next((w for w in written if not w[1] and _covers(w[2], w[0].file, frame)), None)
            if inside is not None:
                return Origin(inside[0], False, None, tensor.path, True)
            called = {n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute)}
            called |= {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            made = next((w for w in written if w[1] and w[3] in called), None)
            taken = frame_of(program.sources, frame.file, value, frame.function)
            if made is not None:
                return Origin(made[0], True, taken, tensor.path, True)
            if seen:
                switch, decorated = _journalled(journal, written)
                return Origin(switch, decorated, taken, tensor.path, True)
    switch, decorated = _journalled(journal, written)
    if switch is None and len(written) == 1:
        switch, decorated = written[0][0], written[0][1]
    return Origin(switch, decorated, None, "", False)


def _near(extras: dict[str, Any]) -> list[Reached]:
    """Inference tensors that the program can reach: those of the outer functions say where they came from."""
    return [t for t in reversed(list(reached(extras))) if t.inference]


def _assigned(sources: SourceTexts, raised: Raised | None, tensor: Reached) -> list[tuple[Frame, ast.expr]]:
    frame = _frame_of(raised, tensor)
    name = tensor.path.partition("[")[0]
    return assignments(sources, frame, name) if frame is not None else []


def _frame_of(raised: Raised | None, tensor: Reached) -> Frame | None:
    """Where the function that reaches a tensor stood when the exception was raised."""
    stack = raised.stack if raised else []
    return next((f for f in reversed(stack) if f.user and f.function == tensor.function), None)


def _read_by_call(sources: SourceTexts, raised: Raised | None, tensor: Reached) -> bool:
    """Whether the statement with which the tensor's function led to the failure names it."""
    frame = _frame_of(raised, tensor)
    root = tree(sources, frame.file) if frame is not None else None
    name = tensor.path.partition("[")[0].partition(".")[0]
    return frame is not None and any(
        isinstance(n, ast.Name) and n.id == name and n.lineno == frame.line
        for n in ast.walk(root or ast.Module([], []))
    )


Written = tuple[Frame, bool, ast.AST, str]
"""(place, whether a decorator, what it governs, the function's name)."""


def _written(sources: SourceTexts) -> list[Written]:
    """Every ``inference_mode`` in the sources."""
    out: list[Written] = []
    for file in sources:
        root = tree(sources, file)
        for node in ast.walk(root) if root is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for d in node.decorator_list:
                    if MODE in ast.unparse(d):
                        out.append((frame_of(sources, file, d, node.name), True, node, node.name))
            elif isinstance(node, ast.With | ast.AsyncWith):
                for item in node.items:
                    if MODE in ast.unparse(item.context_expr):
                        out.append((frame_of(sources, file, item.context_expr), False, node, ""))
    return out


def _covers(node: ast.AST, file: str, frame: Frame) -> bool:
    first, last = int(getattr(node, "lineno", 0)), int(getattr(node, "end_lineno", 0))
    return frame.file == file and first <= frame.line <= last


def _journalled(journal: list[Frame], written: list[Written]) -> tuple[Frame | None, bool]:
    """The last switch that was thrown, as it stands in the source."""
    at = innermost_user(journal)
    if at is None:
        return None, False
    for frame, decorated, _, _ in written:
        if frame.file == at.file and frame.line == at.line:
            return frame, decorated
    return at, at.column == 0
