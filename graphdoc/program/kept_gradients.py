"""Where the program keeps ``.grad`` itself instead of a copy, and where it reads again what it has kept."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.program import bindings

_KEEPING = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.Dict, ast.DictComp, ast.Assign, ast.Return)


@dataclass(frozen=True)
class KeptGradients:
    """Gradients that the program keeps under a name, without a copy: where it does, and where it reads them again."""

    name: str
    places: list[Frame]
    read: Frame


def read_on(sources: SourceTexts, sign: Sign) -> KeptGradients | None:
    """What a backward call has added to, if the program reads it afterwards and never writes through it."""
    file, name, line = str(sign.facts["file"]), str(sign.facts["name"]), int(sign.facts["line"])
    read, places = _read_next(sources, file, name, line), _kept(sources, file, name, line)
    if read is None or not places or _written_through(sources, file, name, line):
        return None
    return KeptGradients(name, places, read)


def _read_next(sources: SourceTexts, file: str, name: str, line: int) -> Frame | None:
    """Where the function around a line reads ``name`` below it before binding it anew; None where it does not."""
    root = bindings.tree(sources, file)
    if root is None:
        return None
    scope = bindings.function_around(root, line) or root
    found = [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.Name | ast.Attribute) and n.lineno >= line and bindings.text_of(n) == name
    ]
    if any(n.lineno == line and isinstance(n.ctx, ast.Store) for n in found):
        return None  # the statement that was running gives it another value
    found = [n for n in found if n.lineno > line]
    # A name that is read and bound by one statement is read first.
    first = min(found, key=lambda n: (n.lineno, not isinstance(n.ctx, ast.Load), n.col_offset), default=None)
    if first is None or not isinstance(first.ctx, ast.Load):
        return None
    return bindings.frame_of(sources, file, first)


def _written_through(sources: SourceTexts, file: str, name: str, line: int) -> bool:
    """Whether the function around a line writes in place to what it keeps under ``name``: then it knows that these are
    the gradients themselves, and clears or scales them through it.

    ``for g in grads: g.zero_()``, ``for p, g in zip(params, grads): g.mul_(0.9)``, ``torch._foreach_zero_(grads)``.
    """
    root = bindings.tree(sources, file)
    scope = (bindings.function_around(root, line) or root) if root is not None else ast.Module([], [])
    elements: set[str] = set()
    for loop in (n for n in ast.walk(scope) if isinstance(n, ast.For)):
        if any(bindings.text_of(n) == name for n in ast.walk(loop.iter)):
            elements.update(n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name))
    for call in (n for n in ast.walk(scope) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)):
        function = call.func
        assert isinstance(function, ast.Attribute)
        if not function.attr.endswith("_") or function.attr.endswith("__"):
            continue
        held = function.value.value if isinstance(function.value, ast.Subscript) else function.value
        first = bindings.text_of(call.args[0]) if call.args else ""
        if bindings.text_of(function.value) in elements or bindings.text_of(held) == name or first == name:
            return True
    return False


def _kept(sources: SourceTexts, file: str, name: str, line: int) -> list[Frame]:
    """The expressions that keep a ``.grad`` without a copy: in the function around a line, under a name of its own;
    where there are none, those that a function of the program returns."""
    root = bindings.tree(sources, file)
    scope = (bindings.function_around(root, line) or root) if root is not None else None
    if scope is not None:
        given = [n for n in bindings.shallow(scope) if isinstance(n, ast.Assign) and _has_names(n)]
        own = [e for n in given for e in _uncopied(n)]
        if any(bindings.text_of(t) == name for n in given if _uncopied(n) for t in n.targets):
            return [bindings.frame_of(sources, file, e) for e in own]
    returned = []
    for other in sources:
        for node in ast.walk(bindings.tree(sources, other) or ast.Module([], [])):
            if isinstance(node, ast.Return):
                returned += [bindings.frame_of(sources, other, e) for e in _uncopied(node)]
    return returned


def _has_names(node: ast.Assign) -> bool:
    return all(isinstance(t, ast.Name) or (isinstance(t, ast.Attribute) and t.attr != "grad") for t in node.targets)


def _uncopied(statement: ast.stmt) -> list[ast.expr]:
    """The ``….grad`` (with ``.data`` or ``.detach()`` behind it) that a statement keeps in what it makes."""
    parents = {child: node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)}
    found: list[ast.expr] = []
    for node in ast.walk(statement):
        if not isinstance(node, ast.Attribute) or node.attr != "grad" or not isinstance(node.ctx, ast.Load):
            continue
        whole: ast.expr = node
        while True:
            above = parents.get(whole)
            if isinstance(above, ast.Attribute) and above.attr == "data":
                whole = above
            elif isinstance(above, ast.Attribute) and above.attr == "detach" and isinstance(parents[above], ast.Call):
                call = parents[above]
                assert isinstance(call, ast.Call)
                whole = call
            else:
                break
        # Of an assignment only a container is kept: a single name is read and gone.
        if isinstance(above, _KEEPING) and not isinstance(above, ast.Assign):
            found.append(whole)
    return found
