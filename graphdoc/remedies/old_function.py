"""What mends a custom Function of the old style, which is called as an object."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import call_at, text_of
from graphdoc.program.custom_functions import class_of_kept
from graphdoc.program.spans import place


def of_today(sources: SourceTexts, frame: Frame | None) -> tuple[Remedy, ...]:
    """Static methods and ``apply``, where the call of the object is in sight: ``Name(a)(x)``, or ``self.kept(x)``."""
    call = call_at(sources, frame)
    if frame is None or call is None:
        return ()
    if not isinstance(call.func, ast.Call):
        return _of_kept_object(sources, frame, call)
    name = text_of(call.func.func)
    return (
        Remedy(
            "static_function",
            f"Make the methods of `{name}` static, and call `{name}.apply(...)`",
            "safe",
            "What the object kept is handed to `forward` and kept in `ctx`; it gets no gradient, as before.",
            {"place": place(frame)},
        ),
    )


def _of_kept_object(sources: SourceTexts, frame: Frame, call: ast.Call) -> tuple[Remedy, ...]:
    """The object is kept, and its class is known by what it was built from."""
    name = class_of_kept(sources, frame, text_of(call.func))
    if not name:
        return ()
    return (
        Remedy(
            "static_function_kept",
            f"Make the methods of `{name}` static, and call `{name}.apply`",
            "safe",
            "What the object keeps stays where it is kept, and is handed to `forward`; it gets no gradient, as before.",
            {"place": place(frame), "name": name},
        ),
    )
