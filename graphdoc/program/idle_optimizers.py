"""Optimizers that a program has and surely never steps: what only they hold is not trained."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from graphdoc.evidence import Event, Frame, Optimizer, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, tree


def idle_optimizers(sources: SourceTexts, events: list[Event], optimizers: list[Optimizer]) -> frozenset[int]:
    """Ids of the optimizers that have not stepped, and that no ``step`` written in the program can mean.

    Known by the last two names of the path on which ``step`` is called (``agent.actor.optimizer``); of a method's
    ``self.optimizer`` by what the method is called on; by a bare name where no other line binds that name than the one,
    outside of functions and loops, that makes the optimizer. Nothing is known where ``step`` is called on another bare
    name, or where the optimizers that did step are stepped by code that is not seen.
    """
    stepped = {e.optimizer for e in events if e.kind == "step"}
    ends = {o.id: _end(o.name.split(".")) for o in optimizers}
    roots = [root for file in sources if (root := tree(sources, file)) is not None]
    single = {(name,) for name in _made_once(roots)} & set(ends.values())
    written: set[tuple[str, ...]] = set()
    for root in roots:
        for method, path, _ in _stepped_paths(root):
            if method and path[:1] == ["self"] and len(path) == 2:
                owners = _called_on(roots, method, frozenset())
                if not owners or not owners <= {end[0] for end in ends.values()}:
                    return frozenset()  # it may be called on anything
                written |= {(owner, path[1]) for owner in owners}
            else:
                written.add(_end(path))
    if not stepped or any(len(end) < 2 and end not in single for end in written):
        return frozenset()
    if any(ends.get(o, ()) not in written for o in stepped):
        return frozenset()
    known = {end for end in ends.values() if len(end) == 2 or end in single}
    return frozenset(o for o, end in ends.items() if o not in stepped and end in known - written)


def written_step(sources: SourceTexts, name: str, near: Frame) -> Frame | None:
    """A ``step`` in the file of ``near`` that means an optimizer of this name, or may: in a method, one of its own
    object. A bare name means it in the function of ``near`` alone."""
    end, root = _end(name.split(".")), tree(sources, near.file)
    if root is None:
        return None
    around = function_around(root, near.line)
    for method, path, call in _stepped_paths(root):
        own = bool(method) and path[:1] == ["self"] and len(path) == 2
        here = len(end) > 1 or function_around(root, call.lineno) is around
        if path and here and (_end(path) == end or (own and path[-1] == end[-1])):
            return frame_of(sources, near.file, call)
    return None


def _made_once(roots: list[ast.Module]) -> set[str]:
    """The names that one statement outside of functions and loops binds, to what it calls, and none binds again."""
    times: Counter[str] = Counter()
    for n in (n for root in roots for n in ast.walk(root)):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            times[n.id] += 1
        elif isinstance(n, ast.arg):
            times[n.arg] += 1
        elif isinstance(n, ast.alias):
            times[n.asname or n.name] += 1
        elif isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.ExceptHandler):
            times[n.name or ""] += 1
    made = (s for root in roots for s in root.body if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call))
    return {t.id for s in made for t in s.targets if isinstance(t, ast.Name) and times[t.id] == 1}


def _called_on(roots: list[ast.Module], method: str, under_way: frozenset[str]) -> set[str]:
    """The last names of everything that a method of this name is called on, seen from outside of the class; with an
    empty one where it is not known.
    """
    found: set[str] = set()
    for root in roots:
        for inside, n in _within_methods(root):
            if not isinstance(n, ast.Attribute) or n.attr != method:
                continue
            path = _names(n.value)
            if path == ["self"] and inside and inside not in under_way:
                found |= _called_on(roots, inside, under_way | {method}) or {""}
            elif path != ["self"] or not inside:
                found.add(_end(path)[-1] if path else "")
    return found


def _stepped_paths(root: ast.Module) -> Iterator[tuple[str, list[str], ast.Call]]:
    """What ``step`` is called on, and what it is given, each with the method around it and the call.

    Not where its result is unpacked, as an environment's is.
    """
    unpacked = {
        id(n.value)
        for n in ast.walk(root)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Tuple) for t in n.targets)
    }
    for method, n in _within_methods(root):
        if not isinstance(n, ast.Call) or id(n) in unpacked:
            continue
        if isinstance(n.func, ast.Attribute) and n.func.attr == "step":
            yield method, _names(n.func.value), n
            yield from ((method, _names(a), n) for a in n.args)


def _within_methods(root: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the name of the method that it stands in, empty outside of classes."""
    waiting: list[tuple[str, ast.AST]] = [("", root)]
    while waiting:
        method, node = waiting.pop()
        yield method, node
        for child in ast.iter_child_nodes(node):
            inner = method
            if isinstance(node, ast.ClassDef) and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = child.name
            waiting.append((inner, child))


def _names(node: ast.expr) -> list[str]:
    """``["agent", "actor", "optimizer"]``; of ``agents[0].optimizer`` the names alone. Empty for another expression."""
    out: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute | ast.Subscript):
        if isinstance(at, ast.Attribute):
            out.insert(0, at.attr)
        at = at.value
    return [at.id, *out] if isinstance(at, ast.Name) else []


def _end(path: list[str]) -> tuple[str, ...]:
    return tuple(name.partition("[")[0] for name in path[-2:])
