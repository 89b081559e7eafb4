"""Parameters as the source gathers them: picked by name, run over once, computed from a leaf, made as an input."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Evidence, Frame, Optimizer, Parameter, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import call_at, expression_at
from graphdoc.program.carried_names import Carried
from graphdoc.program.parameter_paths import ITERATORS, within
from graphdoc.program.spans import user_line
from graphdoc.program.tracker import behind
from graphdoc.program.written_out import everywhere
from graphdoc.source.effects import method_of
from graphdoc.source.module import Function, each, given_to, has, is_method_call, keyword, receiver_of, walked
from graphdoc.source.paths import (
    bare_call,
    blocks_of,
    called,
    covers,
    detached,
    elements,
    is_attribute,
    is_constant,
    is_in_place,
    is_name,
    is_read,
    last_word,
    only,
    parse_expression,
    path_of,
    plain_names,
    targets_of,
    without_subscripts,
)
from graphdoc.source.scopes import parameters

# Parameters that a function picks out by their names into a group which nothing ever reads.

# Conditions on a parameter's name that can be answered from the source: ``n.startswith("body")``, ``"body" in n``.


def lets_through(test: ast.expr, variable: str, name: str) -> bool | None:
    """Whether this condition on the string ``variable`` holds for ``name``; None where the source does not tell."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            holds = lets_through(inner, variable, name)
            return None if holds is None else not holds
        case ast.BoolOp(op=op, values=values):
            parts = [lets_through(value, variable, name) for value in values]
            return None if None in parts else (all if isinstance(op, ast.And) else any)(parts)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr=method), args=[given]):
            asks = {"startswith": name.startswith, "endswith": name.endswith}.get(method)
            texts = tuple(e.value if isinstance(e, ast.Constant) else None for e in elements(given) or [given])
            known = tuple(text for text in texts if isinstance(text, str))
            return asks(known) if asks is not None and own == variable and known == texts else None
        case ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.In() | ast.NotIn() as op]):
            return (text in name) is isinstance(op, ast.In) if is_name(test.comparators[0], variable) else None
    return None


# Parameters that a function picks out by their names into a group which nothing ever reads.

Block = list[ast.stmt]
_ALL_NAMES = {"locals", "vars", "eval", "exec"}


@dataclass(frozen=True)
class Collected:
    """``name`` is filled at ``filled`` with ``parameters`` and not read again; ``handed`` is the statement by which the
    same block hands over another group of that name (empty for none), ``following`` what stands behind the loop."""

    name: str
    filled: Frame
    parameters: list[str]
    handed: str
    following: Frame | None


@dataclass(frozen=True)
class _Filling:
    """``for name, p in module.named_parameters(): … group.append(p)``."""

    group: str
    module: str
    variable: str
    tests: tuple[tuple[ast.expr, bool], ...]
    statement: ast.stmt


def never_given(sources: SourceTexts, loose: list[str], others: list[str]) -> Collected | None:
    """The one group that a program fills with parameters of ``loose`` alone, and forgets.

    Args:
        sources: the program's files.
        loose: names of parameters that no optimizer holds.
        others: names of all others.

    Returns:
        None where no such group is found, several are, or the source does not tell whom one takes.
    """
    found = [
        collected
        for file, scope in everywhere(sources, ast.FunctionDef)
        if _keeps_to_names(scope)
        for block in _straight(scope)
        for at, loop in enumerate(block)
        if isinstance(loop, ast.For)
        for filling in _fillings(loop)
        if _is_forgotten(scope, block, at, filling)
        and (collected := _collected(sources, file, block, at, filling, loose, others)) is not None
    ]
    return only(found)


def _collected(
    sources: SourceTexts, file: str, block: Block, at: int, filling: _Filling, loose: list[str], others: list[str]
) -> Collected | None:
    own = within(filling.module, [*loose, *others])
    # It may have another name here: the object that each name starts from.
    own = own or {name: name.partition(".")[2] for name in [*loose, *others]}
    taken, kept = (_taken(filling, {n: own[n] for n in names if n in own}) for names in (loose, others))
    filled, *behind = (bindings.frame_of(sources, file, s) for s in (filling.statement, *block[at + 1 : at + 2]))
    found = Collected(filling.group, filled, taken or [], _handed(block, filling.group), next(iter(behind), None))
    return found if taken and kept == [] else None


def _keeps_to_names(scope: Function) -> bool:
    """Whether what a function does with its names stands in its text."""
    called = {n.func.id for n in each(scope, ast.Call) if isinstance(n.func, ast.Name)}
    return not has(scope, ast.Global, ast.Nonlocal) and not called & _ALL_NAMES


def _straight(scope: Function) -> Iterator[Block]:
    """The blocks of a function that run at most once for a call: its own, and those of conditions and contexts."""
    todo: list[Block] = [scope.body]
    for block in todo:
        yield block
        for statement in block:
            if isinstance(statement, ast.If | ast.With | ast.Try):
                todo += blocks_of(statement)


def is_left_by_choice(sources: SourceTexts, optimizers: list[Optimizer], loose: list[str]) -> bool:
    """Whether the program itself keeps these from its optimizers: one filter picks what they are given, or one list of
    names (several are to divide all of it). Or each is named in a condition that does not take it, or a line that did
    not run gives these to one."""
    filters, rejected = 0, set[str]()
    for _, one in bindings.everywhere(sources, ast.ListComp, ast.GeneratorExp):
        over = one.generators[0]
        kept = isinstance(one.elt, ast.Name | ast.Tuple) and plain_names(one.elt) <= plain_names(over.target)
        picking = [test for test in over.ifs if _picks(over.iter, over.target, test)] if kept else []
        filters += bool(picking)
        rejected |= {n for n in loose for test in picking if _rejects(test, over.target, n)}
    for _, loop in everywhere(sources, ast.For):
        tested = [n for n in each(loop, ast.If) if _picks(loop.iter, loop.target, n.test)]
        passing = any(isinstance(n.body[-1], ast.Continue) for n in tested)
        found = [f for f in _fillings(loop) if any(n.test is test for n in tested for test, _ in f.tests)]
        filters += 1 if passing else len(found)
    calls = (call for _, call in bindings.everywhere(sources, ast.Call) if is_method_call(call, "parameters"))
    filters += sum(bindings.text_of(call.func.value).startswith("getattr(") for call in calls)
    return filters == 1 or {*loose} == rejected or _is_given_elsewhere(sources, optimizers, loose)


_BOUNDS = ("clamp_", "clamp_min_", "clamp_max_", "clip_")
_UPDATES = ("add_", "sub_", "mul_", "lerp_", "addcmul_", "addcdiv_")


def are_updated_by_hand(sources: SourceTexts, loose: list[str], written: bool) -> bool:
    """Whether the program may update these itself, by ``p.data += x`` or ``p.add_(x).clamp_(0)``: at a bound the
    numbers stay as they were all the same.

    Args:
        written: the run has seen writes: a bound, ``p.clamp_(0, 1)``, is to explain them, and no function that is given
            one of these may write to it.
    """
    names, bounded = {name.rpartition(".")[2] for name in loose}, set[str]()
    every = [node for _, node in bindings.everywhere(sources, ast.FunctionDef)]
    functions = {node.name for node in every} if written else set[str]()
    restoring = {n for f in every if any(called(c) == "load" for c in each(f, ast.Call)) for n in walked(f)}
    for _, node in bindings.everywhere(sources, ast.Call, ast.Assign, ast.AugAssign):
        changed: list[ast.expr] = []
        if node in restoring:
            continue  # what was saved is put back
        if not isinstance(node, ast.Call):
            changed = [t for t in targets_of(node) if isinstance(node, ast.AugAssign) or is_attribute(t, "data")]
        elif called(node) in functions:
            changed = node.args
        elif is_method_call(node, *_BOUNDS):
            own = last_word(detached(node.func.value) or node.func.value)
            bounded |= {own}
            changed = [] if own in names else [node.func.value]
        elif is_method_call(node, *_UPDATES) or (written and is_in_place(called(node)) and "grad" not in called(node)):
            changed = [node]
        if any(last_word(n) in names for part in changed for n in walked(part)):
            return True
    return written and not names <= bounded


def _rejects(test: ast.expr, target: ast.expr, name: str) -> bool:
    """Whether a condition names this parameter as one that it does not take: ``not n.endswith("scale")``."""
    variables = plain_names(target)
    named = [n.operand for n in each(test, ast.UnaryOp) if isinstance(n.op, ast.Not)]
    named += [
        ast.Compare(n.left, [ast.In()], n.comparators)
        for n in each(test, ast.Compare)
        if isinstance(only(n.ops), ast.NotIn)
    ]
    return any(lets_through(n, variable, own) for n in named for variable in variables for own in _ends(name))


def _ends(name: str) -> list[str]:
    """A parameter's names in each of the modules around it."""
    return [name.split(".", n)[-1] for n in range(name.count(".") + 1)]


def _picks(iterated: ast.expr, target: ast.expr, test: ast.expr) -> bool:
    """Whether a condition picks of a module's parameters by their names, or by which they are."""
    if is_method_call(iterated, "named_parameters") and isinstance(target, ast.Tuple):
        return bool(plain_names(target.elts[0]) & plain_names(test))
    return is_method_call(iterated, "parameters") and any(is_name(c.func, "id") for c in each(test, ast.Call))


def _is_given_elsewhere(sources: SourceTexts, optimizers: list[Optimizer], loose: list[str]) -> bool:
    makers = {"add_param_group", *(o.type.rpartition(".")[2] for o in optimizers)}
    ran = [frame for o in optimizers for frame in o.stack]
    given: set[str] = set()
    for file, call in bindings.everywhere(sources, ast.Call):
        seen = any(f.file == file and covers(call, f.line) for f in ran)
        if last_word(call.func) in makers and not seen:
            texts = {bindings.text_of(n) for a in given_to(call) for n in each(a, ast.Attribute, ast.Name)}
            whole = {t for t in texts if not any(other.startswith(f"{t}.") for other in texts)}
            given |= {name for t in whole for name in within(t, loose)}
    return bool(loose) and given == {*loose}


def are_initialised(sources: SourceTexts, names: list[str], every: list[str]) -> bool:
    """Whether the program begins these parameters, or one after the other in a loop, by a function that is for that:
    ``nn.init.xavier_uniform_(self.weight)``, ``self.weight.data.uniform_(-a, a)``."""
    begun: set[str] = set()
    for _, call in everywhere(sources, ast.Call):
        if called(call).endswith("_"):
            texts = [bindings.text_of(e).removesuffix(".data") for e in (*call.args[:1], receiver_of(call))]
            if "init" in bindings.text_of(call.func) and any(text.isidentifier() for text in texts):
                return True
            begun |= {name for text in texts for name, own in within(text, every).items() if not own}
    return begun >= {*names}


def _fillings(loop: ast.For) -> list[_Filling]:
    """What this loop over the parameters of a module puts where."""
    match loop.iter, loop.target:
        case ast.Call(func=ast.Attribute(value=module, attr="named_parameters")), ast.Tuple(
            elts=[name, ast.Name(id=p)]
        ):
            variable = bindings.text_of(name)
        case ast.Call(func=ast.Attribute(value=module, attr="parameters")), ast.Name(id=p):
            variable = ""
        case _:
            return []
    found = []
    todo: list[tuple[Block, tuple[tuple[ast.expr, bool], ...]]] = [(loop.body, ())]
    for block, tests in todo:
        for statement in block:
            if isinstance(statement, ast.If):
                todo += [(statement.body, (*tests, (statement.test, True)))]
                todo += [(statement.orelse, (*tests, (statement.test, False)))]
            elif group := _filled(statement, p):
                found.append(_Filling(group, bindings.text_of(module), variable, tests, statement))
    return found


def _filled(statement: ast.stmt, parameter: str) -> str:
    """``group`` of ``group.append(p)`` and ``group["params"].append(p)``; empty for any other statement."""
    match bare_call(statement):
        case ast.Call(func=ast.Attribute(value=entry, attr="append"), args=[ast.Name(id=given)]) if given == parameter:
            group = without_subscripts(entry)
            return group.id if isinstance(group, ast.Name) else ""
    return ""


def _is_forgotten(scope: Function, block: Block, at: int, filling: _Filling) -> bool:
    """Whether the group is bound in front of the loop, and read by nothing until it is assigned again or the function
    ends."""
    bound = [i for i, s in enumerate(block) if _binds(s, filling.group)]
    start = max((i for i in bound if i < at), default=-1)
    if start < 0:
        return False
    end = min((i for i in bound if i > at), default=len(block))
    first, last = block[start].lineno, block[end].end_lineno if end < len(block) else scope.end_lineno
    written = {n for s in walked(scope) for n in _names_written(s, filling.group)}
    names = (n for n in each(scope, ast.Name) if n.id == filling.group and is_read(n) and n not in written)
    inner = (n for n in each(scope, ast.stmt, ast.Lambda) if isinstance(n, Function | ast.Lambda | ast.ClassDef))
    taken = any(filling.group in bindings.names_in(n) for n in inner if n is not scope)
    return not taken and not any(first <= n.lineno <= (last or n.lineno) for n in names)


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether this gives ``name`` a new value: only what is made in place is nobody else's."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict | ast.List | ast.Call):
        return False
    return [bindings.text_of(t) for t in statement.targets] == [name]


def _names_written(statement: ast.AST, name: str) -> list[ast.Name]:
    """The names in ``group["params"] = []`` and ``group.append(p)``, by which a group is filled and not read."""
    method, on = method_of(statement)
    written = [t for t in getattr(statement, "targets", ()) if isinstance(t, ast.Subscript)]
    filled = [on] if on is not None and method == "append" else []
    return [b for b in map(without_subscripts, (*written, *filled)) if is_name(b, name)]


def _taken(filling: _Filling, names: dict[str, str]) -> list[str] | None:
    """Which of these parameters of its module the loop puts into its group; None where the source does not tell."""
    found = []
    for name, own in names.items():
        passes = [_passes(test, filling.variable, own, wanted) for test, wanted in filling.tests]
        if None in passes:
            return None
        if all(passes):
            found.append(name)
    return found


def _passes(test: ast.expr, variable: str, name: str, wanted: bool) -> bool | None:
    holds = True if asks_for_gradient(test) else lets_through(test, variable, name)
    return None if holds is None else holds is wanted


def _handed(block: Block, group: str) -> str:
    """``groups.append(group)``, where the block does so with another group of this name."""
    texts = {bindings.text_of(s) for s in block if is_method_call(bare_call(s), "append")}
    return only([text for text in texts if text.endswith(f".append({group})")]) or ""


# Iterators of parameters: what can be gone through only once, and has a name by which it is used again.


@dataclass(frozen=True)
class OneShot:
    """``name`` is bound, by the expression at ``frame``, to an iterator over the parameters of ``module``, or over a
    ``part`` of them that a condition on their names chooses."""

    name: str
    module: str
    frame: Frame
    statement: Frame
    part: bool = False


def one_shot(
    sources: SourceTexts, parameters: list[Parameter], stack: Sequence[Frame], given: ast.expr | None
) -> OneShot | None:
    """The iterator behind this argument of a call at the end of a stack, where it cannot have been empty.

    That is told by the module: parameters of its own that require gradients are known, and nothing else is asked of
    them. So a list that is rightly empty (no layer of some kind, everything frozen) is not meant.
    """
    found = behind(sources, stack, given)
    if not found:
        return None
    value, name = found[-1].value, found[-1].name
    module, tests = module_of(value)
    names = [module, *(path_of(b.value) for b in behind(sources, found[-1].stack, parse_expression(module)))]
    known = [m for m in names if m and _learning(parameters, m)]
    # A module of another name here than where the run has found it: none of what it found is frozen.
    whole = not known and all(map(asks_for_gradient, tests)) and all(p.buffer or p.requires_grad for p in parameters)
    # What lies around it has parameters, by the name that it has here, and none in it.
    whole = whole and not _learning(parameters, module.rpartition(".")[0])
    # The module does not list what lies in a plain container in it: ``layers[0].weight``.
    listed = (own for m in known for own in _learning(parameters, m) if "[" not in own)
    if not module or not (whole or any(_kept(value, own) for own in listed)):
        return None
    part = isinstance(value, ast.GeneratorExp) and not all(asks_for_gradient(c) for c in value.generators[0].ifs)
    statement = found[-1].stack[-1]
    return OneShot(name, module, bindings.frame_of(sources, statement.file, value), statement, part)


def module_of(value: ast.expr) -> tuple[str, list[ast.expr]]:
    """The module whose parameters this iterator gives, in the program's words, and the conditions that they have to
    meet; no module for any other expression."""
    match value:
        case ast.GeneratorExp(elt=entry, generators=[loop]):
            plain = isinstance(entry, ast.Name) and entry.id in bindings.names_in(loop.target)
            module, tests = module_of(loop.iter) if plain else ("", [])
            return module, [*tests, *loop.ifs]
        case ast.Call(func=ast.Name(id="filter"), args=[ast.Lambda(body=test), over]):
            module, tests = module_of(over) if asks_for_gradient(test) else ("", [])
            return module, [*tests, test]
        # A list's modules, gathered for this call.
        case ast.Call(func=ast.Attribute(value=ast.Call(args=[owner]) as base)) if called(base) == "ModuleList":
            return path_of(owner) if called(value) in ITERATORS else "", []
    return path_of(value.func.value) if is_method_call(value, *ITERATORS) else "", []


def asks_for_gradient(node: ast.expr) -> bool:
    """Whether a condition is the flag of a parameter, and nothing else."""
    return isinstance(node, ast.Attribute) and node.attr == "requires_grad"


def _kept(value: ast.expr, own: str) -> bool:
    """Whether a generator's conditions surely let a trainable parameter through whose name in its module is ``own``."""
    return not isinstance(value, ast.GeneratorExp) or all(answer is True for answer in _answers(value, own))


def may_give(value: ast.expr, names: list[str], others: list[str]) -> bool:
    """Whether this iterator may give any of these parameters, which its module calls by a part of their names. Not
    where the module has ``others``, and none of these."""
    known = within(module_of(value)[0], [*names, *others])
    own = [known[n] for n in names if n in known] if known else [end for n in names for end in _ends(n)]
    return any(not isinstance(value, ast.GeneratorExp) or False not in _answers(value, name) for name in own)


def iterators_given(sources: SourceTexts) -> Iterator[tuple[str, Frame, ast.expr]]:
    """The iterators over parameters that a name is bound to which a group of an optimizer has: the name, the place."""
    for file, node in bindings.everywhere(sources, ast.Dict, ast.keyword):
        keyed = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
        values = [node.value] if isinstance(node, ast.keyword) and node.arg == "params" else []
        for given in values + [value for key, value in keyed if is_constant(key, "params")]:
            name = path_of(given)
            for at, value in bindings.assignments(sources, bindings.frame_of(sources, file, given), name):
                if _is_gone_through_once(value):
                    yield name, bindings.frame_of(sources, at.file, value), value


def put_into_groups(sources: SourceTexts) -> list[Frame]:
    """The iterators that the program itself puts into a group of an optimizer, also by a name:
    ``group["params"] = net.parameters()``, ``group.update(params=chosen)``."""
    keyed = [
        (file, node.value)
        for file, node in bindings.everywhere(sources, ast.Assign)
        if any(isinstance(t, ast.Subscript) and is_constant(t.slice, "params") for t in targets_of(node))
    ]
    calls = [(file, call) for file, call in bindings.everywhere(sources, ast.Call) if is_method_call(call, "update")]
    keyed += [(file, value) for file, call in calls if (value := keyword(call, "params")) is not None]
    places = [(bindings.frame_of(sources, *one), one[1]) for one in keyed]
    named = ((at, [v, *(b for _, b in bindings.assignments(sources, at, path_of(v)))]) for at, v in places)
    return [at for at, values in named if any(map(_is_gone_through_once, values))]


def _is_gone_through_once(value: ast.expr) -> bool:
    once = isinstance(value, ast.Call) and path_of(value.func) in ("filter", "map")
    return once or isinstance(value, ast.GeneratorExp) or is_method_call(value, *ITERATORS)


def _answers(value: ast.GeneratorExp, own: str) -> list[bool | None]:
    """What each condition of a generator says of a trainable parameter whose name in its module is ``own``."""
    loop = value.generators[0]
    pair = elements(loop.target) if is_method_call(loop.iter, "named_parameters") else []
    variable = last_word(pair[0]) if len(pair) == 2 else ""
    return [asks_for_gradient(c) or lets_through(c, variable, own) for c in loop.ifs]


def _learning(parameters: list[Parameter], module: str) -> list[str]:
    """The names, within this module, of those of the run's parameters in it that require gradients."""
    return [*filter(None, within(module, (p.name for p in parameters if p.requires_grad and not p.buffer)).values())]


# Values that are computed from a leaf made in the same expression: ``torch.exp(nn.Parameter(...))``.


def makes_parameter(carries: list[Carried]) -> bool:
    """Whether any of the values comes straight from an operation around ``Parameter(...)``.

    Such a parameter has no name and is in no optimizer, and yet it was written to be trained.
    """
    places = ((c.run.sources, user_line(c.made)) for c in carries)
    values = (expression_at(*at) or call_at(*at) for at in places)
    return any(called(call) == "Parameter" for value in values for call in each(value, ast.Call) if call is not value)


def leaf_inside(value: ast.expr) -> bool:
    """Whether an expression makes one tensor that is to learn and computes on with it: what it gives is no leaf."""
    inner = [n for n in each(value, ast.Call) if n is not value]
    return sum(called(n) == "Parameter" or is_flagged(n) for n in inner) == 1


def is_flagged(call: ast.Call) -> bool:
    """Whether what a call gives is to have a gradient: ``randn(3, requires_grad=True)``, ``x.requires_grad_()``."""
    return called(call) == "requires_grad_" or is_constant(keyword(call, "requires_grad"), True)


# Where the input of a derivative was made, and under which name: followed from callee to caller as far as is seen.

_MODULE_CALLS = ("Module._call_impl", "Module._wrapped_call_impl", "Module.__call__")


@dataclass(frozen=True)
class MadeInput:
    """``name`` is the tensor's own at ``frame``. ``given``: a package hands it to the function that stands there."""

    name: str
    frame: Frame
    given: bool = False


def made_input(run: Evidence, name: str) -> MadeInput | None:
    """The assignment nearest to the innermost frame that has one.

    A helper's own argument name (``x``) leads to the caller, where the call's argument in that position has a name. A
    function that an installed package calls (a solver's right-hand side) is given what that package has made.
    """
    stack = run.raised.stack if run.raised else []
    own = [i for i in range(len(stack) - 1, -1, -1) if stack[i].user]
    wanted = name
    for number, index in enumerate(own):
        frame = stack[index]
        found = bindings.assignments(run.sources, frame, wanted)
        if found:
            return MadeInput(wanted, found[0][0])
        function = bindings.function_at(run.sources, frame)
        if function is None or wanted not in parameters(function) or number + 1 >= len(own):
            return None
        between = stack[own[number + 1] + 1 : index]
        if any(not f.function.endswith(_MODULE_CALLS) for f in between):
            return MadeInput(wanted, Frame(frame.file, function.lineno, function=frame.function), given=True)
        given = bindings.names_in(bindings.given_as(run.sources, frame, stack[own[number + 1]], wanted))
        wanted = next(iter(given), "")
    return None
