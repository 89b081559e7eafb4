"""Optimizers in the source: where each is made, whom it owns, how it is spelled, whether it ever steps."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from graphdoc.evidence import Event, Frame, Optimizer, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import frame_of, source_at, statement_at, tree, tree_at, trees
from graphdoc.program.gathered_parameters import ITERATORS
from graphdoc.program.library_calls import library_calls
from graphdoc.program.origins import may_mean
from graphdoc.program.written_out import passes_on
from graphdoc.source.module import Function, Source, each, given_to, is_method_call, is_within, walked
from graphdoc.source.paths import (
    blocks_of,
    covers,
    is_attribute,
    is_set,
    last_word,
    only,
    parse_expression,
    path_of,
    plain_names,
    sole_target,
    targets_of,
)
from graphdoc.source.scopes import is_readable, parameters

Block = list[ast.stmt]


@dataclass(frozen=True)
class Made:
    """The statement that makes an optimizer, with the statements before and behind it in its block."""

    file: str
    statement: ast.Assign
    before: Block
    behind: Block

    @property
    def given(self) -> ast.expr | None:
        """What it is to train, as it is written."""
        return (
            bindings.argument(self.statement.value, 0, "params") if isinstance(self.statement.value, ast.Call) else None
        )

    def frame(self, sources: SourceTexts) -> Frame:
        """Its place."""
        return bindings.frame_of(sources, self.file, self.statement)

    def gathering(self) -> ast.stmt:
        """The first statement of the block that gathers what the optimizer is given: the one that makes it, or one
        that reads a module's parameters into a name which that takes."""
        holding: set[str] = set()
        first: dict[str, ast.stmt] = {}
        for s in self.before:
            if any(is_method_call(n, *ITERATORS) for n in each(s, ast.Call)) or holding & plain_names(s, ast.Load):
                names = plain_names(s, ast.Store) | {n.id for n in map(_filled_in, walked(s)) if n is not None}
                begun = min((first[n] for n in holding & plain_names(s, ast.Load)), key=_line, default=s)
                first |= dict.fromkeys(names - holding, begun)
                holding |= names
        given = holding & plain_names(self.statement.value, ast.Load)
        return min((first[n] for n in given), key=_line, default=self.statement)


def _line(statement: ast.stmt) -> int:
    return statement.lineno


def _filled_in(node: ast.AST) -> ast.Name | None:
    """The list that ``append`` or ``extend`` is called on."""
    on = node.func.value if is_method_call(node, "append", "extend") else None
    return on if isinstance(on, ast.Name) else None


def made(sources: SourceTexts, optimizer: Optimizer | None) -> Made | None:
    """The statement that binds this optimizer to a call: of several the one that ran as it was made; None where there
    is none, and where several fit and it was not seen being made.

    ``trainer.optimizer`` may be bound as ``self.optimizer``.
    """
    if optimizer is None or not optimizer.name:
        return None
    name = optimizer.name
    alike = {name} if "." not in name else {name, f"self.{name.rpartition('.')[2]}"}
    found = [
        Made(file, statement, block[:i], block[i + 1 :])
        for file, node in bindings.everywhere(sources)
        for block in blocks_of(node)
        for i, statement in enumerate(block)
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and any(bindings.text_of(t) in alike for t in statement.targets)
    ]
    if optimizer.stack:
        ran = [[m for m in found if f.file == m.file and covers(m.statement, f.line)] for f in optimizer.stack]
        found = next((at for at in ran if at), [])  # a function that makes and returns it may call it the same
    return only(found)


_SHARDING = ("fully_shard", "parallelize_module", "distribute_module")
"""Functions of torch.distributed that give a module other parameters, in place."""


def replacing(sources: SourceTexts, making: Made, names: list[str], born: list[Frame]) -> ast.stmt | None:
    """The first statement behind, in the same block, that replaces what these parameters belong to: the one that ran
    when they were ``born``, where the run has seen that; else the first one behind, wherever it stands, that assigns
    one of them; or None."""
    owners = {".".join(parts[:n]) for name in names for parts in (name.split("."),) for n in range(1, len(parts))}
    owners.discard("self")
    run = [s for s in making.behind if not isinstance(s, Function)]  # its call replaces
    own = [f for f in born if f.file == making.file and any(covers(s, f.line) for s in run)]
    found = next((s for f in own if (s := bindings.statement_at(sources, f)) is not None), None)
    found = found or next((s for s in run if any(_replaces(sources, n, owners) for n in walked(s))), None)
    assigned = (n for s in run for n in each(s, ast.Assign) if not {*names}.isdisjoint(map(_base, n.targets)))
    return found or next(assigned, None)


def rebuilt(sources: SourceTexts, making: Made, names: list[str]) -> ast.Assign | None:
    """The one statement in another method of the class that gives it another of what the optimizer was made from and
    these parameters belong to: ``self.net = build()``."""
    root, line = bindings.tree(sources, making.file), making.statement.lineno
    function, cls = bindings.function_around(root, line), bindings.class_around(root, line)
    wholes = {bindings.text_of(n) for n in each(making.statement.value, ast.Attribute)}
    wholes = {w for w in wholes if w.startswith("self.") and all(f".{w[5:]}." in f".{n}" for n in names)}
    found = [s for s in each(cls, ast.Assign) if not wholes.isdisjoint(map(bindings.text_of, s.targets))]
    return only([s for s in found if function is None or not is_within(s, function)])


def made_again(sources: SourceTexts, making: Made) -> str:
    """The statement that makes the optimizer, for another method of its class; empty where that cannot have it. What
    a name of its own method gave is read from the optimizer's defaults."""
    root, call = bindings.tree(sources, making.file), making.statement.value
    function, cls = bindings.function_around(root, making.statement.lineno), bindings.class_around(root, call.lineno)
    target = bindings.text_of(making.statement.targets[0])
    if not isinstance(call, ast.Call) or function is None or not target.startswith("self."):
        return ""
    own = {n.arg for n in each(function, ast.arg)} | plain_names(function, ast.Store)
    given = (a for c in each(cls, ast.Call) for a in given_to(c))
    taken = any(bindings.text_of(a) == target for a in given)  # by a scheduler, which would be left with the old one
    if taken or any(k.arg is None for k in call.keywords) or _uses(call.args, own):
        return ""
    parts = [bindings.text_of(a) for a in call.args]
    for k in call.keywords:
        value = f'{target}.defaults["{k.arg}"]' if _uses([k.value], own) else bindings.text_of(k.value)
        parts.append(f"{k.arg}={value}")
    return f"{target} = {bindings.text_of(call.func)}({', '.join(parts)})"


def _uses(values: list[ast.expr], names: set[str]) -> bool:
    return any(n.id in names - {"self"} for value in values for n in each(value, ast.Name))


def untying(sources: SourceTexts, making: Made, names: list[str]) -> tuple[ast.Assign, list[str]] | None:
    """The first statement behind, in the same block, that assigns one of these parameters, or a layer with it, which
    the program ties to another; and the names that it assigns."""
    assigned = ((s, _base(t)) for s in making.behind if isinstance(s, ast.Assign) for t in s.targets)
    found = ((s, [n for n in names if f"{n}.".startswith(f"{owner}.") and "." in owner]) for s, owner in assigned)
    return next(((s, mine) for s, mine in found if any(_is_tied(sources, n) for n in mine)), None)


def _is_tied(sources: SourceTexts, name: str) -> bool:
    """Whether the program makes this parameter one with another: ``self.head.weight = self.table.weight``."""
    tail = "." + ".".join(name.split(".")[-2:])
    assigned = (n for _, n in bindings.everywhere(sources, ast.Assign) if isinstance(n.value, ast.Attribute))
    sides = ([*n.targets, n.value] for n in assigned)
    alike = (s for s in sides if all(is_attribute(one, last_word(s[-1])) for one in s))
    return any(bindings.text_of(one).endswith(tail) for s in alike for one in s)


def binding_behind(making: Made, name: str) -> ast.stmt | None:
    """The statement of the same block, behind, that binds ``name``."""
    bound = (s for s in making.behind if isinstance(s, ast.Assign))
    return next((s for s in bound if name in map(bindings.text_of, s.targets)), None)


def _replaces(sources: SourceTexts, node: ast.AST, owners: set[str]) -> bool:
    if isinstance(node, ast.Assign):
        return any(_base(t) in owners for t in node.targets)
    if not isinstance(node, ast.Call):
        return False
    given = [bindings.text_of(a) for a in node.args]
    function, mine = bindings.text_of(node.func), not owners.isdisjoint(given[:1])
    shards = (f.line == node.lineno for f in library_calls(sources, *_SHARDING))
    return mine and (function == "setattr" or any(shards))


def _base(node: ast.expr) -> str:
    """What an assignment changes: ``model.fc`` for itself, ``model.layers`` for ``model.layers[0]``."""
    while isinstance(node, ast.Subscript) and not path_of(node):
        node = node.value
    return bindings.text_of(node)


def by_own_names(sources: SourceTexts, optimizers: list[Optimizer]) -> list[Optimizer]:
    """The optimizers; those that the run knows by the argument of a function that only passes it on, ``def step(of):
    of.step()``, by the name that they were bound to as they were made."""
    functions = (f for _, f in bindings.everywhere(sources, ast.FunctionDef) if passes_on(f))
    passing = {name for f in functions for name in parameters(f)}
    return [replace(o, name=_bound_to(sources, o) or o.name) if o.name in passing else o for o in optimizers]


def _bound_to(sources: SourceTexts, optimizer: Optimizer) -> str:
    """The target of the innermost statement of those that ran as an optimizer was made."""
    statements = (statement_at(sources, f) for f in reversed(optimizer.stack) if f.user)
    targets = (sole_target(s) for s in statements if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call))
    return next((path for t in targets if t is not None and (path := path_of(t))), "")


# Who owns a parameter: the optimizers that hold it, none of them, or one cannot tell.

UNNAMED = "<"
"""How the name of a parameter begins that the program holds under no name of its own (``<unnamed [3, 4]>``)."""


@dataclass(frozen=True)
class Ownership:
    """The answer for some parameters: ids of the ``optimizers`` that hold any of them, those that surely none holds
    (``free``), and those of which it is not known (``unknown``)."""

    optimizers: frozenset[int]
    free: frozenset[str]
    unknown: frozenset[str]

    @property
    def known(self) -> bool:
        """Whether the owner of every one of the parameters is known."""
        return not self.unknown


class Owners:
    """The optimizers of a run and what each of them holds."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self.optimizers = optimizers
        self._held = {n for o in optimizers for n in o.parameters}

    def of(self, names: Iterable[str]) -> Ownership:
        """Who owns these parameters."""
        rest = set(names) - self._held
        # What has no name is not listed by name: an optimizer may hold it all the same.
        unknown = {n for n in rest if n.startswith(UNNAMED)}
        return Ownership(frozenset(self.holding(names)), frozenset(rest - unknown), frozenset(unknown))

    def holding(self, names: Iterable[str]) -> set[int]:
        """Ids of the optimizers that hold any of these parameters."""
        wanted = set(names)
        return {o.id for o in self.optimizers if wanted & set(o.parameters)}

    def parameters(self, ids: Iterable[int]) -> set[str]:
        """What these optimizers hold."""
        wanted = set(ids)
        return {n for o in self.optimizers if o.id in wanted for n in o.parameters}


# How the code of one function can write an optimizer that the program elsewhere calls by another path.


def spelled(sources: SourceTexts, name: str, at: Frame, calls: Iterable[Frame]) -> str | None:
    """``self.optimizer`` in a method of what the main function calls ``agent``; None where no spelling is known.

    Args:
        name: how the program calls the optimizer, found by going through its variables (``agent.optimizer``); empty
            for one that another optimizer keeps, say.
        at: where it is to be written.
        calls: places of calls that are known to have been made on it.
    """
    source, here = source_at(sources, at), statement_at(sources, at)
    if here is None:
        return None
    for call in calls:
        if call.file == at.file:
            text = _owner_text(source, bindings.call_at(sources, call), here, name.rpartition(".")[2])
            if text:
                return text
    return name if name and is_readable(source, name.split(".")[0].split("[")[0], here) else None


def _owner_text(source: Source, call: ast.Call | None, here: ast.stmt, last: str) -> str:
    """What the call is made on or given (``scaler.step(optimizer)``), if that means the same at ``here``."""
    if not is_method_call(call):
        return ""
    named = [n for n in (call.func.value, *call.args) if bindings.text_of(n).rpartition(".")[2] == last]
    found = named[0] if named else call.func.value if not call.args else None
    # Trees of one text are parsed more than once: the statement is found again by its place.
    owner = source.node_statement(source.place(found)) if found is not None else None
    if found is None or owner is None or source.node_function(owner) is not source.node_function(here):
        return ""
    around = set(source.node_ancestors(here))
    loops = (n for n in source.node_ancestors(owner) if isinstance(n, ast.For | ast.AsyncFor) and n not in around)
    # Each round of such a loop may mean another optimizer by it.
    own = {last_word(t) for loop in loops for t in targets_of(loop) if isinstance(t, ast.Name)}
    return bindings.text_of(found) if not own & plain_names(found) else ""


# Optimizers that a program has and surely never steps: what only they hold is not trained.


def idle_optimizers(sources: SourceTexts, events: list[Event], optimizers: list[Optimizer]) -> frozenset[int]:
    """Ids of the optimizers that have not stepped, and that no ``step`` written in the program can mean.

    Known by the last two names of the path on which ``step`` is called (``agent.actor.optimizer``); of a method's
    ``self.optimizer`` by what the method is called on; by a bare name where no other line binds that name than the one,
    outside of functions and loops, that makes the optimizer. Nothing is known where ``step`` is called on another bare
    name, or where the optimizers that did step are stepped by code that is not seen.
    """
    stepped = {e.optimizer for e in events if e.kind == "step"}
    ends = {o.id: _end_of(o.name) for o in optimizers}
    roots = trees(sources)
    single = {(name,) for name in _made_once(roots)} & set(ends.values())
    written: set[tuple[str, ...]] = set()
    for method, path, _ in _stepped_paths(sources):
        if method and path[:1] == ["self"] and len(path) == 2:
            owners = _called_on(roots, method, frozenset())
            if not owners or not owners <= {end[0] for end in ends.values() if end}:
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
    end, around = _end_of(name), bindings.function_at(sources, near)
    for method, path, at in _stepped_paths(sources, as_written=True):
        own = bool(method) and path[:1] == ["self"] and len(path) == 2
        here = at.file == near.file and (len(end) > 1 or bindings.function_at(sources, at) is around)
        if path and here and (_end(path) == end or (own and path[-1] == end[-1])):
            return at
    return None


def handed(sources: SourceTexts, stack: Sequence[Frame], name: str) -> Frame | None:
    """What the innermost function of a stack was handed by a name, where that name means something in its caller too
    and the call hands the same over twice; a helper that steps whatever it is handed is right to. None where it is
    called in another way, or was handed just this."""
    user = [f for f in stack if f.user]
    if len(user) < 2 or not name.isidentifier():
        return None
    call, given = bindings.call_at(sources, user[-2]), bindings.given_as(sources, user[-1], user[-2], name)
    handed_over = [bindings.text_of(n) for n in given_to(call)] if call is not None else []
    twice = given is not None and handed_over.count(bindings.text_of(given)) > 1 and bindings.text_of(given) != name
    meant = twice and spelled(sources, name, user[-2], []) == name
    return frame_of(sources, user[-2].file, given) if meant and given is not None else None


def may_step(sources: SourceTexts, optimizers: list[Optimizer], ident: int) -> list[Frame]:
    """Where the program calls a ``step`` that may be this optimizer's: on what is none of the others, by name, nor a
    scheduler of theirs."""
    named = ((o, parse_expression(o.name)) for o in optimizers if o.id != ident)
    others = {_end_of(o.name) for o, path in named if path is not None and path_of(path)}
    found = [
        at
        for _, path, at in _stepped_paths(sources, given=False)
        if not path or (_end(path) not in others and "sched" not in path[-1].lower())
    ]
    return [at for n, at in enumerate(found) if at not in found[:n]]


def _made_once(roots: list[ast.Module]) -> set[str]:
    """The names that one statement outside of functions and loops binds, to what it calls, and none binds again."""
    times: Counter[str] = Counter()
    for n in (n for root in roots for n in walked(root) if not isinstance(n, ast.Name | ast.keyword) or is_set(n)):
        named = (getattr(n, field, None) for field in ("id", "asname", "name", "arg"))
        times[next(filter(None, named), "")] += 1
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


def _stepped_paths(
    sources: SourceTexts, given: bool = True, as_written: bool = False
) -> Iterator[tuple[str, list[str], Frame]]:
    """What ``step`` is called on, and what it is given, behind names and arguments: each with the method around it and
    the call that says so. With ``as_written`` first by the name that stands there.

    Not where its result is unpacked, as an environment's is.
    """
    for file in sources:
        root = tree(sources, file)
        unpacked = {id(n.value) for n in each(root, ast.Assign) if any(isinstance(t, ast.Tuple) for t in n.targets)}
        calls = ((method, n) for method, n in _within_methods(root) if id(n) not in unpacked)
        for method, n in ((method, n) for method, n in calls if is_method_call(n, "step")):
            at = frame_of(sources, file, n)
            for whole in (n.func.value, *(n.args if given else ())):
                if as_written:
                    yield method, _names(whole), at
                for meant in may_mean(sources, at, whole):
                    yield _method_at(sources, meant.at) if meant.at != at else method, _names(meant.value), meant.use


def _method_at(sources: SourceTexts, at: Frame) -> str:
    function = bindings.function_at(sources, at)
    root = tree_at(sources, at)
    return function.name if function is not None and bindings.class_around(root, at.line) is not None else ""


@lru_cache(maxsize=16)
def _within_methods(root: ast.Module) -> list[tuple[str, ast.AST]]:
    """Every node with the name of the method that it stands in, empty outside of classes."""
    waiting: list[tuple[str, ast.AST]] = [("", root)]
    found = []
    while waiting:
        found.append(waiting.pop())
        method, node = found[-1]
        for child in ast.iter_child_nodes(node):
            its_own = isinstance(node, ast.ClassDef) and isinstance(child, Function)
            waiting.append((getattr(child, "name", "") if its_own else method, child))
    return found


def _names(node: ast.expr) -> list[str]:
    """``["agent", "actor", "optimizer"]``; of ``agents[0].optimizer`` the names alone. Empty for another expression."""
    out: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute | ast.Subscript):
        out = [last_word(at), *out]
        at = at.value
    return [at.id, *filter(None, out)] if isinstance(at, ast.Name) else []


def _end(path: list[str]) -> tuple[str, ...]:
    return tuple(path[-2:])


def _end_of(name: str) -> tuple[str, ...]:
    """The same of an optimizer's name, as the run has found it."""
    path = parse_expression(name)
    return _end(_names(path)) if path is not None else ()


def regrouping(sources: SourceTexts, step: Frame, backward: Frame) -> tuple[list[Frame], list[Frame]]:
    """Where the program puts other parameters into the groups of an optimizer; and the one statement of the step's
    block between that call and the step which leads there, with the calls in it that do."""
    writes = [
        frame_of(sources, file, n)
        for file, n in bindings.everywhere(sources, ast.Assign, ast.Call)
        if (_fills_group(n.func.value) if is_method_call(n, *_FILLING) else any(map(_fills_group, targets_of(n))))
    ]
    around = [bindings.function_at(sources, f) for f in writes]
    leading = {f.name for f in around if f is not None} - {"step"}
    functions = [f for _, f in bindings.everywhere(sources, ast.FunctionDef)]
    while more := {f.name for f in functions if f.name not in leading and _calling(f, leading)} - {"step", "__init__"}:
        leading |= more
    statement = statement_at(sources, step)
    if statement is None or not backward.in_function_of(step):
        return writes, []
    block, index = source_at(sources, step).node_block(statement)
    start = next((n + 1 for n, s in enumerate(block) if covers(s, backward.line)), 0)
    own = [s for s in block[start:index] if _calling(s, leading) or any(covers(s, f.line) for f in writes)]
    return writes, [frame_of(sources, step, n) for s in own for n in (s, *_calling(s, leading))] if len(
        own
    ) == 1 else []


_FILLING = ("append", "extend", "insert", "clear", "add_param_group")


def _fills_group(node: ast.expr) -> bool:
    """``group["params"]``, ``optimizer.param_groups``, and what is reached through them but another setting."""
    keys = [n.slice for n in each(node, ast.Subscript)]
    named = [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
    return "params" in named or (not named and any(n.attr == "param_groups" for n in each(node, ast.Attribute)))


def _calling(node: ast.AST, names: set[str]) -> list[ast.Call]:
    return [n for n in each(node, ast.Call) if last_word(n.func) in names]
