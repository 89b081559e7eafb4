"""Optimizers in the source: where each is made, whom it owns, how it is spelled, whether it ever steps."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphdoc.evidence import Event, Frame, Optimizer, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import frame_of, source_at, statement_at, tree
from graphdoc.program.library_calls import SHARDING, library_calls
from graphdoc.program.parameter_paths import ITERATORS, within
from graphdoc.program.tracker import Meant, may_mean
from graphdoc.program.written_out import passes_on
from graphdoc.source.module import Function, Source, each, given_to, is_method_call, is_within, walked
from graphdoc.source.paths import (
    blocks_of,
    called,
    covers,
    is_attribute,
    is_constant,
    last_word,
    only,
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
    wholes = {w for w in wholes if w.startswith("self.") and {*names} == within(w, names).keys()}
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
    shards = (f.line == node.lineno for f in library_calls(sources, *SHARDING))
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

    def called(self, path: str) -> set[int]:
        """Ids of the optimizers that a path in the source may mean."""
        meant = within(path, (o.name for o in self.optimizers))
        return {o.id for o in self.optimizers if meant.get(o.name) == ""}

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

    Nothing is known where ``step`` is called on what may be any, or where the optimizers that did step are stepped by
    code that is not seen.
    """
    stepped = {e.optimizer for e in events if e.kind == "step"}
    written: set[int] = set()
    for at, whole, taken in _stepped(sources):
        for meant in may_mean(sources, at, whole):
            ids = _optimizers_of(sources, optimizers, meant)
            if ids is None and not taken:
                return frozenset()
            written |= ids or set()
    known = stepped and stepped <= written
    return frozenset(o.id for o in optimizers if known and o.id not in stepped | written)


def written_step(sources: SourceTexts, optimizers: list[Optimizer], optimizer: Optimizer, near: Frame) -> Frame | None:
    """A ``step`` in the file of ``near`` that is written on the name of this optimizer, or means it; a bare name that
    is handed in is its own in the function of ``near`` alone."""
    around = bindings.function_at(sources, near)
    for at, whole, _ in _stepped(sources):
        here = "." in optimizer.name or bindings.function_at(sources, at) is around
        if at.file == near.file and here and optimizer.id in Owners(optimizers).called(bindings.text_of(whole)):
            return at
        for meant in may_mean(sources, at, whole):
            if optimizer.id in (_optimizers_of(sources, optimizers, meant) or ()) and meant.use.file == near.file:
                return meant.use
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
    """Where the program calls a ``step`` that may be this optimizer's, and is no scheduler's of any."""
    steps = ((m, taken) for at, one, taken in _stepped(sources, given=False) for m in may_mean(sources, at, one))
    known = (
        (m.use, _optimizers_of(sources, optimizers, m), taken)
        for m, taken in steps
        if "sched" not in last_word(m.value).lower()
    )
    found = [at for at, ids, taken in known if (not taken if ids is None else ident in ids)]
    return [at for n, at in enumerate(found) if at not in found[:n]]


def _stepped(sources: SourceTexts, given: bool = True) -> Iterator[tuple[Frame, ast.expr, bool]]:
    """What ``step`` is called on, and what it is given, each with the call. Not where its result is unpacked, as an
    environment's is. And what it is taken of without a call, which may be a number of that name (then True)."""
    spoken = any(is_constant(a, "step") for _, n in bindings.everywhere(sources, ast.Call) for a in given_to(n))
    for file in sources:
        root = tree(sources, file)
        unpacked = {n.value for n in each(root, ast.Assign) if any(isinstance(t, ast.Tuple) for t in n.targets)}
        functions = {n.func for n in each(root, ast.Call)}
        for n in each(root, ast.Call, ast.Attribute):
            of: Sequence[ast.expr] = ()
            if is_method_call(n, "step") and n not in unpacked:
                of = [n.func.value, *(n.args if given else ())]
            elif is_attribute(n, "step") and n not in functions:
                of = [n.value]
            elif spoken and isinstance(n, ast.Call) and isinstance(n.func, ast.Call) and called(n.func) == "getattr":
                of = given_to(n.func)[:1]
            yield from ((frame_of(sources, file, n), one, isinstance(n, ast.Attribute)) for one in of)


def _optimizers_of(sources: SourceTexts, optimizers: list[Optimizer], meant: Meant) -> set[int] | None:
    """The ids of those that an expression may mean: what its binding has made, or what has such a name; None for what
    may be any."""
    text = bindings.text_of(meant.value)
    variables = {o.id for o in optimizers if o.name == text.rpartition(".")[2]}  # one of them may hold the same
    alike = Owners(optimizers).called(text) | variables
    bound = bindings.assignments(sources, meant.at, path_of(meant.value))
    made = {o.id for o in optimizers if any(f.on_lines_of(at) for f in o.stack for at, _ in bound)}
    if made:
        return made & alike or made
    if bound and all(o.stack for o in optimizers) and all(called(v)[:1].isupper() for _, v in bound):
        return set()  # another object, a scheduler perhaps
    return alike if alike and not isinstance(meant.value, ast.Name) else None


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
    one = only(own)
    return writes, [frame_of(sources, step, n) for n in (one, *_calling(one, leading))] if one is not None else []


_FILLING = ("append", "extend", "insert", "clear", "add_param_group")


def _fills_group(node: ast.expr) -> bool:
    """``group["params"]``, ``optimizer.param_groups``, and what is reached through them but another setting."""
    keys = [n.slice for n in each(node, ast.Subscript)]
    named = [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
    return "params" in named or (not named and any(n.attr == "param_groups" for n in each(node, ast.Attribute)))


def _calling(node: ast.AST, names: set[str]) -> list[ast.Call]:
    return [n for n in each(node, ast.Call) if last_word(n.func) in names]
