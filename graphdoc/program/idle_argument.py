"""A function that takes what a gradient is asked for, and does not read it."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings, name_usage

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


def _given(sources: SourceTexts, idle: Idle, wanted: set[str]) -> bool:
    """Whether a call of the function (of its object, for a forward) passes one of these names as the idle argument."""
    function, argument, place = idle
    position = bindings.position_of_argument(sources, place, argument)
    for call in ast.walk(bindings.tree(sources, place.file) or ast.Module([], [])):
        if not isinstance(call, ast.Call):
            continue
        called = bindings.text_of(call.func).rsplit(".", 1)[-1]
        if function in (called, "forward", "lambda"):
            given = [k.value for k in call.keywords if k.arg == argument]
            given += call.args if position is None else call.args[position : position + 1]
            if any(wanted & _names(a) for a in given):
                return True
    return False


def _names(node: ast.expr | None) -> set[str]:
    return {part for n in bindings.names_in(node) for part in n.split(".")} - {"self"}
