"""A loss that takes the older one of two values that bear one name: ``self.score`` of the other update, with ``score``
computed for this one beside it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import assignments, function_around, is_name, names_in, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.remedies.constant_value import frame_at, together
from graphdoc.source.paths import covers, key, pairs
from graphdoc.story.wording import folded, listing


def value_computed_anew(sources: SourceTexts, cut: Remedy) -> list[Remedy]:
    """In place of a cut where the loss uses values: the values that the same function has computed in their place.

    Told where every value that is cut is an attribute, a statement above the loss binds its last name by a call of the
    same function on the same arguments but for their ``detach()``, and nothing that runs with it reads that name.
    """
    edits = cut.parts
    changed: list[dict[str, Any]] = []
    for edit in edits:
        operands = edit["args"].get("operands") if edit["kind"] == "detach_expression" else None
        if not operands or len(operands) != 1:
            return []
        at, path = edit["args"]["place"], str(operands[0][0])
        name = _twin(sources, frame_at(at), path)
        if not name:
            return []
        new = {"kind": "use_instead", "args": {"place": at, "operand": path, "name": name}}
        changed += [new] if new not in changed and not _same_statement(sources, changed, new) else []
    names = {edit["args"]["name"]: edit["args"]["operand"] for edit in changed}
    if len(names) != 1:
        return []
    ((name, path),) = names.items()
    note = (
        f"`{name}` is computed for this loss and reaches it nowhere; `{path}` is the one of the earlier update. The "
        "loss then gives its gradient to what the new one is computed from."
    )
    return [together(changed, f"use `{name}`, computed anew for this loss, in place of `{path}`", note)]


def value_with_its_graph(program: Program, reuse: Reuse, cut: Remedy) -> list[Remedy]:
    """In place of a cut that leaves a term of the loss a constant: the value once more, without the ``detach()`` by
    which it was computed for the other loss, where what was detached has a graph of this pass."""
    operands = cut.args.get("operands") if cut.kind == "detach_expression" else None
    if not operands or len(operands) != 1 or not reuse.carries or not all(c.term for c in reuse.carries):
        return []
    at, name = frame_at(cut.args["place"]), str(operands[0][0])
    made = assignments(program.sources, at, name)
    value = made[0][1] if made and name.isidentifier() else None
    freed = [p for n in ast.walk(value) if (p := _detached(n))] if isinstance(value, ast.Call) else []
    taken = program.node(reuse.carries[0].consumer)
    around = _in_line(taken.stack, at) if taken is not None else None
    known = {t.path: t for t in reversed(program.tensors) if around is not None and t.function == around.function}
    if value is None or not freed or not all(p in known and known[p].requires_grad for p in freed):
        return []
    read = {n for n in names_in(value) if n.isidentifier()}
    between = [f for n in read for f, _ in assignments(program.sources, at, n) if made[0][0].line < f.line < at.line]
    if between:
        return []
    text = ast.unparse(value).replace(".detach()", "")
    whose, paths = folded(reuse.behind), listing(f"`{p}`" for p in dict.fromkeys(freed))
    note = (
        f"`{name}` was computed from {paths} detached, so as a constant this term of the loss would teach nothing. "
        f"Computed anew it trains what {paths} came from; {whose} get gradient from it as well, which their own update "
        "has to clear."
    )
    args = {"place": cut.args["place"], "operand": name, "name": text}
    return [
        Remedy("use_instead", f"compute `{name}` anew for this loss, from {paths} with its graph", "unsafe", note, args)
    ]


def _in_line(stack: Sequence[Frame], at: Frame) -> Frame | None:
    """The frame of a stack that stands on the line of a place; it knows the function."""
    return next((f for f in stack if (f.file, f.line) == (at.file, at.line)), None)


def _detached(node: ast.AST) -> str:
    """``x`` of ``x.detach()``; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach":
        return key(node.func.value)
    return ""


def _twin(sources: SourceTexts, frame: Frame, path: str) -> str:
    """The name that is bound anew above a loss; empty where there is none."""
    root = tree(sources, frame.file)
    scope = function_around(root, frame.line) if root is not None else None
    holder, _, name = path.rpartition(".")
    used = statement_around(scope, frame) if scope is not None else None
    if root is None or scope is None or used is None or not holder or not name.isidentifier():
        return ""
    reads = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    if not all(_apart(scope, used, n) for n in reads):
        return ""
    bound = [s for s in statements(scope) if any(is_name(t, name) for t, _ in pairs(s))]
    if len(bound) != 1 or bound[0] not in scope.body or bound[0].lineno >= used.lineno:
        return ""
    fresh = next(value for t, value in pairs(bound[0]) if is_name(t, name))
    kept = [
        value
        for s in ast.walk(root)
        if isinstance(s, ast.Assign) and not (scope.lineno <= s.lineno <= (scope.end_lineno or s.lineno))
        for t, value in pairs(s)
        if ast.unparse(t) == path
    ]
    return name if kept and all(_same_call(fresh, value) for value in kept) else ""


def _apart(scope: ast.AST, one: ast.AST, other: ast.AST) -> bool:
    """Whether two parts of a function stand in different arms of one branch, so that only one of them runs."""
    for branch in ast.walk(scope):
        if isinstance(branch, ast.If):
            arms = [{id(n) for s in arm for n in ast.walk(s)} for arm in (branch.body, branch.orelse)]
            if any(id(one) in a and id(other) in b for a, b in (arms, arms[::-1])):
                return True
    return False


def _same_call(new: ast.expr, old: ast.expr) -> bool:
    """Whether the new value is the old one without a ``detach()`` in its arguments."""
    if not (isinstance(new, ast.Call) and isinstance(old, ast.Call)):
        return False
    written = ast.unparse(old)
    return written != ast.unparse(new) and written.replace(".detach()", "") == ast.unparse(new)


def statement_around(scope: ast.AST, frame: Frame) -> ast.stmt | None:
    """The innermost statement around a place."""
    found = [s for s in statements(scope) if covers(s, frame.line)]
    return max(found, key=lambda s: (s.lineno, -(s.end_lineno or s.lineno)), default=None)


def _same_statement(sources: SourceTexts, changed: list[dict[str, Any]], new: dict[str, Any]) -> bool:
    """Whether one of the changes is made in the same statement, where it replaces every such operand."""
    frames = [frame_at(e["args"]["place"]) for e in (*changed, new)]
    root = tree(sources, frames[-1].file)
    scope = function_around(root, frames[-1].line) if root is not None else None
    if scope is None:
        return False
    last = statement_around(scope, frames[-1])
    return any(f.file == frames[-1].file and statement_around(scope, f) is last for f in frames[:-1])
