"""Where a layer of a model is made, by its name in the module tree: `heads.ner` where `self.heads` is set."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.paths import last_word, pairs

_Made = tuple[str, ast.expr]


def layers_without(idle: Iterable[str], every: Iterable[str]) -> list[str]:
    """The outermost layers all of whose parameters are idle; a parameter itself where only some of its layer's are."""
    idle, active = list(idle), set(every) - set(idle)
    found: dict[str, None] = {}
    for name in idle:
        parts = name.split(".")
        above = (".".join(parts[:n]) for n in range(1, len(parts) + 1))
        found.setdefault(next(a for a in above if a == name or not any(o.startswith(f"{a}.") for o in active)))
    return list(found)


def made_at(sources: SourceTexts, layer: str, every: Iterable[str]) -> Frame | None:
    """The expression that makes a layer, or the one around it where that cannot be told; None where no class is known
    to be the model's. ``every`` are the names of all its parameters: its class sets the first part of each of them.
    """
    firsts = {name.partition(".")[0] for name in every}
    trees = ((file, bindings.tree(sources, file) or ast.Module([], [])) for file in sources)
    classes = [(file, n) for file, tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    roots = [(f, n) for f, n in classes if firsts <= {name for name, _ in _set_by(n)}]
    here = roots[0] if len(roots) == 1 else None
    made: _Made | None = None
    parts = layer.split(".")
    while parts and here is not None:
        values = [v for name, v in _set_by(here[1]) if name == parts[0]]
        if len(values) != 1:
            break
        value, parts = _entry(values[0], parts[1:])
        made = here[0], value
        own = [(f, n) for f, n in classes if isinstance(value, ast.Call) and n.name == last_word(value.func)]
        here = own[0] if len(own) == 1 else None
    return bindings.frame_of(sources, *made) if made is not None else None


def _set_by(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """What the methods of a class set on their object."""
    for node in ast.walk(cls):
        for target, value in pairs(node) if isinstance(node, ast.stmt) else ():
            if isinstance(target, ast.Attribute) and bindings.is_name(target.value, "self"):
                yield target.attr, value


def _entry(value: ast.expr, parts: Sequence[str]) -> tuple[ast.expr, list[str]]:
    """The entry of a container as it is written out, and the rest of its name: by its key or its index."""
    left = list(parts)
    while left and isinstance(value, ast.Call):
        inner = value.args[0] if len(value.args) == 1 else None
        entries = inner.elts if isinstance(inner, ast.List | ast.Tuple) else value.args
        if last_word(value.func) == "ModuleDict" and isinstance(inner, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in inner.keys]
            found = inner.values[keys.index(left[0])] if left[0] in keys else None
        elif last_word(value.func) in ("Sequential", "ModuleList", "ParameterList") and left[0].isdigit():
            found = entries[int(left[0])] if int(left[0]) < len(entries) else None
        else:
            break
        if not isinstance(found, ast.Call) or any(isinstance(e, ast.Starred) for e in entries):
            break
        value, left = found, left[1:]
    return value, left
