"""Whether parameters were certainly switched on before a step, and nothing but one class's ``train()`` can have
switched them off again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.freezing import TrainOverride, switched, switches
from graphdoc.source.paths import covers

Range = tuple[str, int, int]


@dataclass(frozen=True)
class Unfrozen:
    """A statement that has switched on what ``owner`` holds (``model.backbone``), and the call of ``train()`` behind
    it."""

    owner: str
    at: Frame
    train: Frame

    def has(self, name: str) -> bool:
        """Whether a parameter of this name is among them."""
        owner = re.sub(r"\[(\d+)\]", r".\1", self.owner)  # `net[0].stem` has `net.0.stem.weight`
        return name == owner or name.startswith(owner + ".")


def unfrozen_before(sources: SourceTexts, stack: list[Frame], override: TrainOverride) -> Unfrozen | None:
    """What a statement that no branch leaves out has switched on before the step with this stack."""
    train: Frame | None = None
    for frame in (f for f in reversed(stack) if f.user):
        root = bindings.tree(sources, frame.file)
        if root is None:
            return None
        scope = bindings.function_around(root, frame.line) or root
        passed = list(_passed(scope.body, frame.line))
        on = max((n for n, s in enumerate(passed) if switched(s, True)), default=-1)
        trains = [s for s in passed[on + 1 :] if _is_train(s)]
        train = bindings.frame_of(sources, frame.file, trains[-1]) if trains else train
        if on < 0:
            continue
        known = [_range(override.file, override.cls), *(_range(frame.file, s) for s in passed[: on + 1])]
        if train is None or any(not _within(off, known) for off in _switching_off(sources)):
            return None
        return Unfrozen(switched(passed[on], True), bindings.frame_of(sources, frame.file, passed[on]), train)
    return None


def _passed(block: list[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """The statements that have run before this line is reached, in each block on the way to it."""
    for statement in block:
        if not covers(statement, line):
            yield statement
            continue
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, [])
            if inner and inner[0].lineno <= line <= (inner[-1].end_lineno or inner[-1].lineno):
                yield from _passed(inner, line)
        return


def _is_train(statement: ast.stmt) -> bool:
    """``model.train()`` or ``model.train(True)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "train":
        return False
    mode = bindings.argument(call, 0, "mode")
    return mode is None or (isinstance(mode, ast.Constant) and mode.value is True)


def _switching_off(sources: SourceTexts) -> Iterator[Range]:
    """Every statement that may switch ``requires_grad`` off: what is no plain True may be False."""
    for file in sources:
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.Assign):
                named = any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets)
            else:
                call = node.value if isinstance(node, ast.Expr) else None
                named = isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("requires_grad_", "setattr")
            if named and switches(node) is not True:
                yield _range(file, node)


def _range(file: str, node: ast.AST) -> Range:
    line = int(getattr(node, "lineno", 0))
    return file, line, int(getattr(node, "end_lineno", None) or line)


def _within(inner: Range, known: list[Range]) -> bool:
    return any(file == inner[0] and first <= inner[1] and inner[2] <= last for file, first, last in known)
