"""The tracker: what an expression of the source stands for, followed behind names, loops, arguments and returns."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.module import Function, each, is_method_call, receiver_of
from graphdoc.source.paths import (
    elements,
    is_name,
    is_path,
    is_read,
    last_word,
    only,
    path_of,
    plain_names,
    root_of,
    targets_of,
    without_subscripts,
)
from graphdoc.source.scopes import own_nodes, parameters

MOST = 8
"""Steps that are followed from one expression."""
MOST_MEANT = 24
"""The same, where several places may give it."""
_COPIES = {"list", "tuple", "iter", "sorted"}
_OF_MODULES = ("children", "modules", "named_children", "named_modules")


@dataclass(frozen=True)
class Bound:
    """``value`` is what ``name`` was given by the statement at the end of ``stack``."""

    name: str
    stack: tuple[Frame, ...]
    value: ast.expr


def _given(sources: SourceTexts, one: Bound) -> list[Bound]:
    """What has given an expression its value, one step back: the one assignment to its name, the running call of the
    function that has it as an argument or else each one in the source, or the one ``return`` of a function that is
    called for it. None where the source does not tell."""
    here, value, at, name = one.stack, one.value, one.stack[-1], path_of(one.value)
    if isinstance(value, ast.Call):
        returned = one_return(sources, value)
        stack = (*here[:-1], bindings.frame_of(sources, at.file, value))
        return [Bound(one.name, (*stack, returned[0]), returned[1])] if returned is not None else []
    function, bound = bindings.function_at(sources, at), bindings.assignments(sources, at, name)
    if bound:
        statement, given = bound[0]
        inside = statement.file == at.file and bindings.function_at(sources, statement) is function
        part = _part(sources, Bound(name, (*(here[:-1] if inside else ()), statement), given))
        return [part] if len(bound) == 1 and part is not None else []
    if function is None or name not in parameters(function):
        return []
    calls = _calls(sources, here, function)
    handed = [(call, bindings.given_as(sources, at, call[-1], name)) for call in calls]
    found = [Bound(name, call, given) for call, given in handed if given is not None]
    return found if len(found) == len(calls) else []


def behind(sources: SourceTexts, stack: Sequence[Frame], value: ast.expr | None) -> list[Bound]:
    """What an expression at the end of a stack was bound to, nearest first. Copies (``list(x)``) are looked through.
    Ends where several places may give it, or where the source does not tell."""
    found: list[Bound] = []
    here = tuple(f for f in stack if f.user)
    while value is not None and here and len(found) < MOST:
        step = only(_given(sources, Bound(found[-1].name if found else "", here, uncopied(value))))
        if step is None:
            break
        found.append(step)
        here, value = step.stack, step.value
    return found


def uncopied(value: ast.expr) -> ast.expr:
    """What is copied: ``x`` of ``list(x)``; any other value as it is."""
    while isinstance(value, ast.Call) and path_of(value.func) in _COPIES and len(value.args) == 1:
        value = value.args[0]
    return value


def as_given(sources: SourceTexts, stack: Sequence[Frame], value: ast.expr) -> tuple[ast.expr, tuple[Frame, ...]]:
    """What an argument of the running function is in the caller that gives it, and that one's stack, also behind a name
    that is read this once; any other value as it is."""
    here = tuple(f for f in stack if f.user)
    while isinstance(value, ast.Name) and here:
        step, scope = only(_given(sources, Bound("", here, value))), bindings.scope_at(sources, here[-1])
        bound = bindings.assignments(sources, here[-1], value.id)
        reads = sum(n.id == value.id and is_read(n) for n in each(scope, ast.Name))
        if step is None or (bound and not (reads == 1 and is_path(step.value))):
            break
        value, here = step.value, step.stack
    return value, here


@dataclass(frozen=True)
class Meant:
    """``value`` is what an expression may stand for, at the place ``at``; ``use`` is where it is used so: where the
    expression stands, or the call that hands it to the function around it."""

    use: Frame
    at: Frame
    value: ast.expr


def may_mean(sources: SourceTexts, use: Frame, value: ast.expr) -> list[Meant]:
    """All that a path may stand for: what the one statement gives it that binds it, or what the calls of its function
    do that has it as an argument; itself where the source does not tell."""
    todo, found = [Meant(use, use, value)], []
    for one in todo:
        inner = _meant(sources, one) if len(todo) < MOST_MEANT else []
        todo += inner
        found += [] if inner else [one]
    return found


def _meant(sources: SourceTexts, one: Meant) -> list[Meant]:
    steps = _given(sources, Bound("", (one.at,), one.value)) if is_path(one.value) else []
    if not bindings.assignments(sources, one.at, path_of(one.value)):
        around, first = bindings.function_at(sources, one.at), bindings.function_at(sources, one.use)
        found = [Meant(s.stack[-1] if first is around else one.use, s.stack[-1], s.value) for s in steps]
        return found or _of_object(sources, one)
    loops = ast.For | ast.AsyncFor | ast.With | ast.AsyncWith
    others = (n for n in own_nodes(bindings.scope_at(sources, one.at)) if isinstance(n, loops))
    again = any(path_of(one.value) in map(path_of, targets_of(n)) for n in others)
    found = [Meant(one.use, s.stack[-1], s.value) for s in steps if is_path(s.value) and not again]
    return found or _of_object(sources, one)


def _of_object(sources: SourceTexts, one: Meant) -> list[Meant]:
    """What ``self.optimizer`` of a method is where the method is called on ``agent``: ``agent.optimizer``."""
    method, root = bindings.function_at(sources, one.at), root_of(one.value)
    if method is None or method.name == "__init__" or not is_name(root, "self") or root is one.value:
        return []
    calls = [(at, bindings.call_at(sources, at)) for at in bindings.calls_named(sources, method.name)]
    objects = [(at, receiver_of(c)) for at, c in calls if c is not None]
    made = [(at, _put(one.value, o)) for at, o in objects if o is not None and is_path(o)]
    return [Meant(one.use, at, value) for at, value in made] if len(made) == len(calls) else []


def _put(path: ast.expr, root: ast.expr) -> ast.expr:
    """A path that starts from another object."""
    if isinstance(path, ast.Attribute):
        return ast.copy_location(ast.Attribute(_put(path.value, root), path.attr, path.ctx), path)
    if isinstance(path, ast.Subscript):
        return ast.copy_location(ast.Subscript(_put(path.value, root), path.slice, path.ctx), path)
    return root


def all_meant(sources: SourceTexts, file: str, owner: ast.expr) -> list[ast.expr]:
    """What an expression may stand for: itself, what the calls of its function give it, what a loop runs over, and the
    elements of that where they are written out."""
    over = run_over(sources, file, owner)
    meant = may_mean(sources, bindings.frame_of(sources, file, owner), owner)
    return [owner, *(m.value for m in meant), *over, *(e for values in over for e in elements(values))]


def words_for(sources: SourceTexts, file: str, owner: ast.expr) -> set[str]:
    """The last words of all that; ``self`` for each module inside of one."""
    meant = all_meant(sources, file, owner)
    inside = {"self"} if any(is_method_call(m, *_OF_MODULES) for m in meant) else set()
    return {last_word(without_subscripts(m)) for m in meant} - {""} | inside


def run_over(sources: SourceTexts, file: str, owner: ast.expr) -> list[ast.expr]:
    """What the loop, comprehension or filter runs over of which this is the variable, and what that was bound to."""
    for around in bindings.source_of(sources, file).node_ancestors(owner):
        match around:
            case ast.For():
                run = [(around.target, around.iter)]
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                run = [(g.target, g.iter) for g in around.generators]
            case ast.Call(func=ast.Name(id="filter"), args=[ast.Lambda(args=ast.arguments(args=[taken])), iterated]):
                run = [(ast.Name(taken.arg), iterated)]
            case _:
                continue
        for target, iterated in run:
            if isinstance(owner, ast.Name) and owner.id in plain_names(target):
                at = bindings.frame_of(sources, file, owner)
                return [iterated, *(b.value for b in behind(sources, [at], iterated))]
    return []


def one_return(sources: SourceTexts, call: ast.expr | None) -> tuple[Frame, ast.expr] | None:
    """The place and the value of the one ``return`` of a function of the program's own that is called by its name."""
    name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    found = only([(file, n) for file, n in bindings.everywhere(sources, ast.FunctionDef) if n.name == name])
    if found is None:
        return None
    file, function = found
    given = only([n for n in own_nodes(function) if isinstance(n, ast.Return)])
    if given is None or given.value is None:
        return None
    return bindings.frame_of(sources, file, given, function.name), given.value


def _part(sources: SourceTexts, bound: Bound) -> Bound | None:
    """The same for the one name, of those that the statement binds; None where it takes apart what is not written."""
    statement = bindings.statement_at(sources, bound.stack[-1])
    names = [path_of(t) for t in targets_of(statement)] if statement is not None else []
    if len(names) == 1:
        return bound
    value, stack = bound.value, bound.stack
    if isinstance(value, ast.Call) and (inner := _given(sources, bound)):
        value, stack = inner[0].value, inner[0].stack
    parts = elements(value)
    return Bound(bound.name, stack, parts[names.index(bound.name)]) if len(parts) == len(names) else None


def _calls(sources: SourceTexts, here: tuple[Frame, ...], function: Function) -> list[tuple[Frame, ...]]:
    """The stacks that end in a call of a function: the running one, or one for each call in the source."""
    around = bindings.class_around(bindings.tree_at(sources, here[-1]), function.lineno)
    name = around.name if around is not None and function.name == "__init__" else function.name
    running = bindings.call_at(sources, here[-2]) if len(here) > 1 else None
    if running is not None and last_word(running.func) == name:
        return [here[:-1]]
    return [(call,) for call in bindings.calls_named(sources, name)]
