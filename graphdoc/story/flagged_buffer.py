"""Telling a buffer that requires gradients: it is saved and moved with its module, and no optimizer is given it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import listing


def flagged_buffer(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``flagged-buffer`` sign; None where its registration is not found, or its gradient is read."""
    file, cls, names = str(sign.facts["file"]), str(sign.facts["class"]), [str(n) for n in sign.facts["buffers"]]
    root = bindings.tree(sources, file)
    owner = bindings.class_around(root, int(sign.facts["line"])) if root is not None else None
    if root is None or owner is None or any(_is_read(sources, name) for name in names):
        return None
    found = [(call, made) for call in _registering(owner, names) if (made := _made(owner, call)) is not None]
    if not found:
        return None
    places = [(bindings.frame_of(sources, file, c), bindings.frame_of(sources, file, made)) for c, made in found]
    edits: list[dict[str, Any]] = [
        {"kind": "register_parameter", "args": {"place": place(at), "made": place(made)}} for at, made in places
    ]
    name, whose = optimizer_of(optimizers, sign), listing([f"`{n}`" for n in names])
    one = len(names) == 1
    note = (
        f"`parameters()` finds {whose}: an optimizer that is given all of the module's trains {'it' if one else 'them'}"
    )
    title = "register it as a parameter" if one else "register them as parameters"
    remedy = (
        Remedy("several", title, "unsafe", note, {"edits": edits})
        if len(edits) > 1
        else Remedy("register_parameter", title, "unsafe", note, edits[0]["args"])
    )
    return Finding(
        0.92,
        "likely",  # that they get gradients nobody uses is seen; that they are to learn is not
        f"{whose} of `{cls}` {'is a buffer' if one else 'are buffers'} with gradients, in no optimizer",
        "`parameters()` does not list buffers. They are moved and saved with the module and keep their values, and "
        "their `.grad` grows, as no `zero_grad()` clears it.",
        distinct(
            (
                *(span("cause", made, "made to get gradients", sources) for _, made in places[:2]),
                *(span("related", at, "registered as what does not learn", sources) for at, _ in places[:2]),
                *span_of("related", sign.stack, "gives them gradients that nobody uses", sources),
            )
        ),
        remedies=(remedy,),
        because=f"the loss gave {whose} gradients in each of {sign.count} calls, and nothing has changed or cleared "
        f"{'it' if one else 'them'}; {name} holds other parameters of the same model",
    )


def _registering(owner: ast.ClassDef, names: list[str]) -> Iterator[ast.Call]:
    """The calls that register these names, which may be put together: ``f"table_{name}"``."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and bindings.dotted(node.func).endswith(".register_buffer"):
            given = bindings.argument(node, 0, "name")
            if isinstance(given, ast.Constant):
                pattern = re.escape(str(given.value))
            elif isinstance(given, ast.JoinedStr):
                parts = (re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".*" for v in given.values)
                pattern = "".join(parts)
            else:
                continue
            if any(re.fullmatch(pattern, name) for name in names):
                yield node


def _made(owner: ast.ClassDef, call: ast.Call) -> ast.expr | None:
    """The expression that makes the tensor and lets it require gradients; the only one that its name is bound to."""
    value = bindings.argument(call, 1, "tensor")
    if isinstance(value, ast.Name):
        function = bindings.function_around(owner, call.lineno)
        bound = [
            n.value
            for n in ast.walk(function or owner)
            if isinstance(n, ast.Assign) and any(bindings.is_name(t, value.id) for t in n.targets)
        ]
        value = bound[0] if len(bound) == 1 else None
    return value if isinstance(value, ast.Call) and _is_flagged(value) else None


def _is_flagged(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
        return True
    return any(
        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords
    )


def _is_read(sources: SourceTexts, name: str) -> bool:
    """Whether the program reads the gradient of an attribute of this name: it is wanted for itself."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and bindings.text_of(node.value).rpartition(".")[2].partition("[")[0] == name
        for file in sources
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
    )
