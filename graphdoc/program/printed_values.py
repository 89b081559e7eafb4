"""Values that are taken out of a graph to be printed or logged: nothing goes on from them."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.source.module import Source
from graphdoc.source.paths import key, last_word, targets_of
from graphdoc.source.places import Place

_TELL = frozenset(
    {"print", "debug", "info", "warning", "add_scalar", "add_scalars", "set_postfix", "set_postfix_str"}
    | {"set_description", "set_description_str"}
)

_PLAIN = frozenset(
    {"str", "repr", "format", "float", "int", "bool", "len", "list", "tuple", "round", "abs", "min", "max", "sum"}
    | {"mean", "std", "var", "median", "around", "argmax", "argmin", "array", "asarray", "exp", "log", "sqrt"}
)
"""Functions of Python, numpy and math that give a new value and keep nothing."""


def goes_nowhere_else(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the array made at a place is printed and can be kept by nothing: ``print`` gets it, or what its own
    methods and plain functions make of it."""
    source = Source(frame.file, sources.get(frame.file, "")) if frame is not None else None
    node = source.node_expression(Place.of(frame)) if source is not None and frame is not None else None
    if source is None or source.tree is None or node is None or _binds_print(source.tree):
        return False
    inner: ast.AST = node
    for outer in (node, *source.node_ancestors(node)):
        if isinstance(outer, ast.Call) and key(outer.func) == "print":
            return isinstance(source.parents.get(outer), ast.Expr)
        if isinstance(outer, ast.NamedExpr | ast.Lambda | ast.comprehension | ast.stmt):
            return False
        if isinstance(outer, ast.Call) and not _keeps_nothing(outer, inner):
            return False
        inner = outer
    return False


def _keeps_nothing(call: ast.Call, value: ast.AST) -> bool:
    """Whether a call with a value in it gives something new and leaves the value to nobody."""
    if call.func is value or (call is value and last_word(call.func) == "numpy"):
        return True  # a method of the value's own
    named = isinstance(call.func, ast.Name) or key(call.func).split(".")[0] in ("np", "numpy", "math")
    return named and last_word(call.func) in _PLAIN and not any(k.arg == "out" for k in call.keywords)


def _binds_print(tree: ast.AST) -> bool:
    return any(
        "print" in (getattr(n, "name", ""), getattr(n, "asname", ""), *(key(t) for t in targets_of(n)))
        for n in ast.walk(tree)
    )


def _statement(sources: SourceTexts, frame: Frame | None) -> ast.stmt | None:
    text = sources.get(frame.file) if frame is not None else None
    if frame is None or text is None:
        return None
    return Source(frame.file, text).node_statement(Place.of(frame))


def is_only_printed(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the statement at a place does nothing but print or log."""
    statement = _statement(sources, frame)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and last_word(call.func) in _TELL
