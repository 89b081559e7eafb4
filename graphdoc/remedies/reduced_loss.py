"""One number of a loss with several elements: their mean, or their sum; and whether they have their weights already."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.flows import made_of
from graphdoc.program.spans import where
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.source.paths import last_word

_WEIGHING = ("MulBackward", "DivBackward")


def reduced(
    sources: SourceTexts, frame: Frame | None, output: ast.expr | None, inner: bool, name: str, op: str = ""
) -> tuple[Remedy, ...]:
    """The mean before the call, or where the loss is computed; the sum of what ``autograd.grad`` differentiates
    (``inner``). ``output`` is what is differentiated, as it is written, ``name`` its name where it has one, ``op`` the
    node of the operation that made it."""
    if inner:
        return remedy_at(
            frame,
            "reduce_loss",
            "Differentiate the sum of the elements",
            "unsafe",
            "Where each element depends on its own row of the input alone, the gradient of the sum holds the "
            "derivative of each.",
            method="sum",
        )
    equal = "Every element counts the same, a zero too, and the step does not grow with their number."
    computed = _read_on(sources, frame, name)
    left = (
        "whether the elements are to be averaged or added up, no run tells"
        if op.startswith(_WEIGHING) or _is_weighed(sources, frame, output)
        else ""
    )
    ways = (
        *remedy_at(
            frame if _read_as_number(sources, frame, name) else None,
            "add_statement",
            f"Average `{name}` before the backward, for what reads it as a number as well",
            "unsafe",
            equal,
            statement=f"{name} = {name}.mean()",
            before=True,
        ),
        *remedy_at(frame, "reduce_loss", "Average the loss before the backward", "unsafe", equal, method="mean"),
        *remedy_at(
            computed,
            "reduce_loss",
            f"Average the loss where it is computed, at {where(computed)}" if computed is not None else "",
            "unsafe",
            f"{equal} What reads `{name}` later reads the mean.",
            method="mean",
        ),
    )
    return tuple(replace(r, open=left) for r in ways)


def _read_as_number(sources: SourceTexts, frame: Frame | None, name: str) -> bool:
    """Whether the function goes on to read the name as one number (``loss.item()``), which several lines may assign."""
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None or not name or len(bindings.assignments(sources, frame, name)) < 2:
        return False
    scope = bindings.function_around(root, frame.line) or root
    calls = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and n.lineno > frame.line]
    return any(bindings.text_of(n) in (f"{name}.item()", f"float({name})") for n in calls)


def _is_weighed(sources: SourceTexts, frame: Frame | None, output: ast.expr | None) -> bool:
    """Whether what is differentiated is made by a product or a quotient, or of terms that were put together: its
    elements may have their weights already."""
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None or output is None:
        return False
    behind = made_of(bindings.function_around(root, frame.line) or root, output, most=2)
    return any(_weighs(e) for e in behind.expressions)


def _weighs(node: ast.expr) -> bool:
    while True:
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.Mult | ast.Div) or _weighs(node.left) or _weighs(node.right)
        if isinstance(node, ast.UnaryOp):
            node = node.operand
        elif isinstance(node, ast.Call) and last_word(node.func) in ("stack", "cat", "mul", "div"):
            return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return False


def _read_on(sources: SourceTexts, frame: Frame | None, name: str) -> Frame | None:
    """The value that a name is given in the function of the call, in one place alone, where more than the call reads
    it: to log it, say, as the one number that it is meant to be."""
    made = bindings.assignments(sources, frame, name) if frame is not None and name else []
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None or len(made) != 1:
        return None
    scope = bindings.function_around(root, frame.line) or root
    lines = {n.lineno for n in ast.walk(scope) if isinstance(n, ast.Name) and bindings.is_name(n, name)}
    value = made[0][1]
    given = [n for n in ast.walk(scope) if isinstance(n, ast.Assign) and n.value is value]
    if not given or not bindings.is_name(given[0].targets[0], name) or len(lines - {given[0].lineno, frame.line}) < 1:
        return None
    return bindings.frame_of(sources, frame.file, value)
