"""What freezes parameters: modules whose ``train()`` does it anew, statements that switch the flag, filled tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.paths import last_word, targets_of, without_subscripts


@dataclass(frozen=True)
class TrainOverride:
    """A class whose ``train`` freezes: ``statement`` in it, and the last statement of its ``__init__`` if it has one.

    ``call`` is the statement's source where it is a call of a method without arguments, else empty; ``frozen_once``
    tells that ``__init__`` does the same.
    """

    file: str
    cls: ast.ClassDef
    statement: ast.stmt
    call: str
    init_end: ast.stmt | None
    frozen_once: bool = False

    def frame(self, sources: SourceTexts, node: ast.AST) -> Frame:
        """A place in its file."""
        return bindings.frame_of(sources, self.file, node)


def freezing_in_train(sources: SourceTexts) -> TrainOverride | None:
    """The one class of the program whose ``train`` sets ``requires_grad`` to False; None for none or several."""
    found = [o for file in sources for o in _in_file(sources, file)]
    return found[0] if len(found) == 1 else None


def unfreezing(sources: SourceTexts) -> list[Frame]:
    """The statements that switch ``requires_grad`` on."""
    return [
        bindings.frame_of(sources, file, node)
        for file in sources
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(node, ast.stmt) and switches(node) is True
    ]


def switches(node: ast.AST) -> bool | None:
    """What a simple statement sets ``requires_grad`` to; None where it does not, or not to a plain value."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        if node.targets[0].attr == "requires_grad" and isinstance(node.value, ast.Constant):
            return bool(node.value.value)
        return None
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
        given = bindings.argument(call, 0, "requires_grad")
        return True if given is None else bool(given.value) if isinstance(given, ast.Constant) else None
    return None


def switched(statement: ast.stmt, to: bool) -> str:
    """``model.head`` of ``model.head.requires_grad_(True)`` and of the loop that does it for each of its parameters;
    empty where the statement does not switch ``requires_grad`` ``to`` this."""
    if isinstance(statement, ast.For):
        source = statement.iter.func if isinstance(statement.iter, ast.Call) else None
        if not isinstance(source, ast.Attribute) or source.attr not in ("parameters", "named_parameters"):
            return ""
        names = {n.id for n in ast.walk(statement.target) if isinstance(n, ast.Name)}
        each = any(switches(s) is to and _flagged(s) in names for s in statement.body)
        return bindings.text_of(source.value) if each else ""
    return _flagged(statement) if switches(statement) is to else ""


def _flagged(statement: ast.stmt) -> str:
    """What a simple statement sets ``requires_grad`` of."""
    if isinstance(statement, ast.Assign):
        return bindings.text_of(getattr(statement.targets[0], "value", None))
    call = statement.value if isinstance(statement, ast.Expr) else None
    return bindings.text_of(getattr(call.func, "value", None)) if isinstance(call, ast.Call) else ""


def frozen_behind(sources: SourceTexts, at: Frame, name: str) -> bool:
    """Whether the function of ``at`` switches this tensor's flag off, or detaches it in place, on a later line.

    What is frozen so soon was never to learn: a write before it fills a table.
    """
    root = bindings.tree(sources, at.file)
    if root is None or not name:
        return False
    later = [
        n
        for n in bindings.shallow(bindings.function_around(root, at.line) or root)
        if isinstance(n, ast.stmt) and n.lineno > at.line
    ]
    return any(_frozen(n) == name for n in later)


def parameter_behind(sources: SourceTexts, at: Frame, name: str) -> bool:
    """Whether the function of ``at`` makes a parameter of this tensor on a later line: ``nn.Parameter(name.view(-1))``.

    A parameter is a leaf of its own, to which no gradient of the write can come: what is written are its numbers.
    """
    root = bindings.tree(sources, at.file)
    if root is None or not name:
        return False
    return any(
        isinstance(n, ast.Call)
        and n.lineno > at.line
        and last_word(n.func) == "Parameter"
        and any(bindings.text_of(part) == name for a in _given(n) for part in ast.walk(a) if isinstance(part, ast.expr))
        for n in bindings.shallow(bindings.function_around(root, at.line) or root)
    )


def _given(call: ast.Call) -> list[ast.expr]:
    data = bindings.argument(call, 0, "data")
    return [data] if data is not None else []


def writes_on(sources: SourceTexts, at: Frame, name: str) -> Frame | None:
    """The last of the statements that follow the one at ``at`` in its block and write into the same tensor; None for
    none."""
    root = bindings.tree(sources, at.file)
    for block in _blocks(root) if root is not None else ():
        for i, statement in enumerate(block):
            if statement.lineno == at.line:
                run = list(takewhile(lambda s: _writes_into(s, name), block[i + 1 :]))
                return bindings.frame_of(sources, at.file, run[-1], at.function) if run else None
    return None


def _blocks(root: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(root):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _writes_into(statement: ast.stmt, name: str) -> bool:
    """``name[0] = …``, ``name[:, 1] += …``, ``name += …``: an entry or the tensor itself is written."""
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return False
    targets = targets_of(statement)
    entries = isinstance(statement, ast.AugAssign) or all(isinstance(t, ast.Subscript) for t in targets)
    return entries and all(bindings.text_of(without_subscripts(t)) == name for t in targets)


def _frozen(node: ast.stmt) -> str:
    """``x`` of ``x.requires_grad = False``, ``x.requires_grad_(False)`` and ``x.detach_()``; empty for the rest."""
    if isinstance(node, ast.Assign) and switches(node) is False:
        return bindings.text_of(getattr(node.targets[0], "value", None))
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    ends = switches(node) is False or (call.func.attr == "detach_" and not call.args)
    return bindings.text_of(call.func.value) if ends else ""


def _in_file(sources: SourceTexts, file: str) -> Iterator[TrainOverride]:
    for cls in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
        if not isinstance(cls, ast.ClassDef):
            continue
        methods = {m.name: m for m in cls.body if isinstance(m, ast.FunctionDef)}
        if "train" not in methods:
            continue
        for statement in ast.walk(methods["train"]):
            if not isinstance(statement, ast.stmt):
                continue
            called = _own_method(statement)
            if called in methods and _freezes(methods[called]):
                init = methods.get("__init__")
                plain = ast.unparse(statement) if not statement.value.args else ""  # type: ignore[attr-defined]
                body = init.body if init is not None else [None]
                once = bool(plain) and any(s is not None and ast.unparse(s) == plain for s in body)
                yield TrainOverride(file, cls, statement, plain, body[-1], once)
                break
            if switches(statement) is False:
                yield TrainOverride(file, cls, statement, "", None)
                break


def _own_method(statement: ast.stmt) -> str:
    """``freeze`` of ``self.freeze()``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) and bindings.text_of(func.value) == "self" else ""


def _freezes(function: ast.FunctionDef) -> bool:
    return any(switches(node) is False for node in ast.walk(function))
