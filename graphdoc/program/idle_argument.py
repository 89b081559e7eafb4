"""A function that takes what a gradient is asked for, and does not read it."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program import bindings, name_usage
from graphdoc.program.spans import innermost_user
from graphdoc.source.paths import covers, last_word

Idle = tuple[str, str, Frame]
"""A function, the argument that it takes and does not read, and the place of its body."""


def idle_argument(sources: SourceTexts, frame: Frame | None) -> Idle | None:
    """The one function that is given an input of the ``grad`` call at ``frame``, or what has its name, and does not
    read it; None of several.

    One that takes something else and does not read that has no part in the missing gradient.
    """
    wanted = asked_names(sources, frame)
    found = [
        i for i in name_usage.idle_arguments(sources) if not wanted or i[1] in wanted or _given(sources, i, wanted)
    ]
    return found[0] if len(found) == 1 else None


def asked_names(sources: SourceTexts, frame: Frame | None) -> set[str]:
    """The names in the inputs of the ``grad`` call at ``frame``, and in what these were assigned from: ``params`` of
    ``weights = list(params.values())``."""
    inputs = bindings.argument(bindings.call_at(sources, frame), 1, "inputs")
    names = _names(inputs)
    if frame is not None and isinstance(inputs, ast.Name):
        names |= {name for _, value in bindings.assignments(sources, frame, inputs.id) for name in _names(value)}
    return names


def read_besides(sources: SourceTexts, raised: Raised | None) -> bool:
    """Whether the function that asks for a gradient reads the input outside of what a ``grad`` call is given, too."""
    frame = innermost_user(raised.stack) if raised is not None else None
    call = bindings.call_at(sources, frame)
    inputs = bindings.argument(call, 1, "inputs")
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None or not isinstance(inputs, ast.Name):
        return False
    scope = bindings.function_around(root, frame.line) or root
    asked = [
        bindings.argument(n, 1, "inputs")
        for n in ast.walk(scope)
        if isinstance(n, ast.Call) and bindings.text_of(n.func).rsplit(".", 1)[-1] == "grad"
    ]
    given = {id(n) for a in asked if a is not None for n in ast.walk(a)}
    return any(
        isinstance(n, ast.Name) and n.id == inputs.id and isinstance(n.ctx, ast.Load) and id(n) not in given
        for n in ast.walk(scope)
    )


def _given(sources: SourceTexts, idle: Idle, wanted: set[str]) -> bool:
    """Whether a call of the function (of its object, for a forward) passes one of these names as the idle argument."""
    function, argument, place = idle
    position = bindings.position_of_argument(sources, place, argument)
    root = bindings.tree(sources, place.file) or ast.Module([], [])
    names = {function} if function != "lambda" else _bound_to(root, place)
    for call in ast.walk(root):
        if not isinstance(call, ast.Call):
            continue
        called = bindings.text_of(call.func).rsplit(".", 1)[-1]
        if called in names or function == "forward" or not names:
            given = [k.value for k in call.keywords if k.arg == argument]
            given += call.args if position is None else call.args[position : position + 1]
            if any(wanted & _names(a) for a in given):
                return True
    return False


def _bound_to(root: ast.AST, place: Frame) -> set[str]:
    """The last names by which the lambda at a place is called: those that a statement binds it to, the keyword that it
    is handed on by; none where neither is seen."""
    names: set[str] = set()
    for node in ast.walk(root):
        if isinstance(node, ast.Assign) and _gives(node.value, place):
            names |= {last_word(t) for t in node.targets}
        elif isinstance(node, ast.keyword) and node.arg and _gives(node.value, place):
            names.add(node.arg)
    return names - {""}


def _gives(value: ast.expr, place: Frame) -> bool:
    """Whether an expression is the lambda at a place, or one of several of which it is one."""
    if isinstance(value, ast.Lambda):
        return covers(value, place.line)
    if isinstance(value, ast.IfExp):
        return _gives(value.body, place) or _gives(value.orelse, place)
    return isinstance(value, ast.BoolOp) and any(_gives(v, place) for v in value.values)


def _names(node: ast.expr | None) -> set[str]:
    return {part for n in bindings.names_in(node) for part in n.split(".")} - {"self"}
