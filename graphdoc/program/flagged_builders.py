"""The calls that build what writes in place: a module or function that is given a flag such as ``inplace=True``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import class_around, frame_of, tree
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place

MOST_FLAGS = 6


def builders(sources: SourceTexts, frame: Frame | None, stack: list[Frame]) -> list[Frame]:
    """The calls that gave a module or function ``inplace=True``: for a write inside what is called at this place.

    Looked for at the place itself, then in what builds the called attribute, then by the class on the stack.
    """
    if frame is None:
        return []
    root = tree(sources, frame.file)
    called = _called(sources, frame)
    if root is None or called is None:
        return []
    here = list(_flagged(called))
    if here:
        return [frame_of(sources, frame.file, c, frame.function) for c in here]
    name = last_word(called.func)
    found: list[Frame] = []
    for file in (frame.file, *(f for f in sources if f != frame.file)):
        for value in _values(sources, file, name):
            found += [frame_of(sources, file, c) for c in _flagged(value)]
            for inner in ast.walk(value):
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
                    found += _factory(sources, file, inner.func.id)
        if found:
            break
    if not found:
        kind = next((f.function.partition(".")[0] for f in reversed(stack) if f.function.endswith(".forward")), "")
        for file in sources:
            module = tree(sources, file)
            for call in _flagged(module) if module is not None and kind else ():
                named = {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute)}
                if kind in named | {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}:
                    found.append(frame_of(sources, file, call))
    ran = {f.function.partition(".")[0] for f in stack if f.user and "." in f.function}
    unique = sorted({f.start: f for f in found}.values(), key=lambda f: _class_around(sources, f) not in ran)
    return unique if len(unique) <= MOST_FLAGS else []


def _class_around(sources: SourceTexts, frame: Frame) -> str:
    """The class in whose text a place lies; what runs a method was built by its class rather than by another one."""
    root = tree(sources, frame.file)
    around = class_around(root, frame.line) if root is not None else None
    return around.name if around is not None else ""


def _called(sources: SourceTexts, frame: Frame) -> ast.Call | None:
    source = Source(frame.file, sources.get(frame.file, ""))
    node = source.node_expression(Place.of(frame))
    if isinstance(node, ast.Call):
        return node
    owner = source.node_statement(Place.of(frame))
    value = getattr(owner, "value", None)
    return value if isinstance(value, ast.Call) else None


def _flagged(scope: ast.AST) -> Iterator[ast.Call]:
    """Calls with ``inplace=True``, or with True where torch's class of that name takes ``inplace``."""
    from graphdoc.source.in_place_names import POSITIONS

    for node in ast.walk(scope):
        if not isinstance(node, ast.Call):
            continue
        name = last_word(node.func)
        at = POSITIONS.get(name)
        by_name = any(k.arg == "inplace" and getattr(k.value, "value", None) is True for k in node.keywords)
        by_place = at is not None and len(node.args) > at and getattr(node.args[at], "value", None) is True
        if by_name or by_place:
            yield node


def _values(sources: SourceTexts, file: str, name: str) -> list[ast.expr]:
    root = tree(sources, file)
    out: list[ast.expr] = []
    for node in ast.walk(root) if root is not None and name else ():
        if isinstance(node, ast.Assign):
            for t in node.targets:
                last = last_word(t)
                if last == name:
                    out.append(node.value)
    return out


def _factory(sources: SourceTexts, file: str, name: str) -> list[Frame]:
    """The flag inside a factory: ``act = partial(nn.ReLU, inplace=True)``, ``def act(): return nn.ReLU(True)``."""
    for other in (file, *(f for f in sources if f != file)):
        root = tree(sources, other)
        scopes: list[ast.AST] = list(_values(sources, other, name))
        for node in ast.walk(root) if root is not None else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                scopes.append(node)
        found = [frame_of(sources, other, c) for s in scopes for c in _flagged(s)]
        if found:
            return found
    return []
