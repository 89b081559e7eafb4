"""Parameters as the source gathers them: picked by name, run over once, computed from a leaf, made as an input."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Evidence, Frame, Optimizer, Parameter, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import call_at, expression_at
from graphdoc.program.carried_names import Carried
from graphdoc.program.origins import behind
from graphdoc.program.spans import user_line
from graphdoc.source.effects import method_of
from graphdoc.source.module import each, given_to, has, is_method_call, keyword, receiver_of, walked
from graphdoc.source.paths import (
    bare_call,
    blocks_of,
    covers,
    is_constant,
    is_name,
    is_read,
    last_word,
    only,
    parse_expression,
    plain_names,
    without_subscripts,
)

# Parameters that a function picks out by their names into a group which nothing ever reads.

# Conditions on a parameter's name that can be answered from the source: ``n.startswith("body")``, ``"body" in n``.


def lets_through(test: ast.expr, variable: str, name: str) -> bool | None:
    """Whether this condition on the string ``variable`` holds for ``name``; None where the source does not tell."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = lets_through(test.operand, variable, name)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [lets_through(value, variable, name) for value in test.values]
        return None if None in parts else (all if isinstance(test.op, ast.And) else any)(parts)
    if is_method_call(test) and len(test.args) == 1:
        text = _text(test.args[0])
        if text is None or not is_name(test.func.value, variable) or test.func.attr not in ("startswith", "endswith"):
            return None
        return name.startswith(text) if test.func.attr == "startswith" else name.endswith(text)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_name(test.comparators[0], variable):
        text = _text(test.left)
        if text is not None and isinstance(test.ops[0], ast.In | ast.NotIn):
            return (text in name) is isinstance(test.ops[0], ast.In)
    return None


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


# Parameters that a function picks out by their names into a group which nothing ever reads.

Scope = ast.FunctionDef | ast.AsyncFunctionDef
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
        for file, scope in bindings.everywhere(sources)
        if isinstance(scope, Scope) and _keeps_to_names(scope)
        for block in _straight(scope)
        for at, loop in enumerate(block)
        if isinstance(loop, ast.For)
        for filling in _fillings(loop)
        if _is_forgotten(scope, block, at, filling)
        and (collected := _collected(sources, file, block, at, filling, loose, others)) is not None
    ]
    return only(found)


def _collected(
    sources: SourceTexts,
    file: str,
    block: Block,
    at: int,
    filling: _Filling,
    loose: list[str],
    others: list[str],
) -> Collected | None:
    taken = _taken(filling, loose)
    if not taken or _taken(filling, others) != []:
        return None
    behind = block[at + 1] if at + 1 < len(block) else None
    return Collected(
        filling.group,
        bindings.frame_of(sources, file, filling.statement),
        taken,
        _handed(block, filling.group),
        bindings.frame_of(sources, file, behind) if behind is not None else None,
    )


def _keeps_to_names(scope: Scope) -> bool:
    """Whether what a function does with its names stands in its text."""
    called = {n.func.id for n in each(scope, ast.Call) if isinstance(n.func, ast.Name)}
    return not has(scope, ast.Global, ast.Nonlocal) and not called & _ALL_NAMES


def _straight(scope: Scope) -> Iterator[Block]:
    """The blocks of a function that run at most once for a call: its own, and those of conditions and contexts."""
    todo: list[Block] = [scope.body]
    for block in todo:
        yield block
        for statement in block:
            if isinstance(statement, ast.If | ast.With | ast.Try):
                todo += blocks_of(statement)


def is_left_by_choice(sources: SourceTexts, optimizers: list[Optimizer], loose: list[str]) -> bool:
    """Whether the program itself keeps these from its optimizers: one filter picks what they are given, or one list of
    names (several are to divide all of it). Or a line that did not run gives these to one."""
    filters = 0
    for _, one in bindings.everywhere(sources, ast.ListComp, ast.GeneratorExp):
        over = one.generators[0]
        kept = isinstance(one.elt, ast.Name | ast.Tuple) and plain_names(one.elt) <= plain_names(over.target)
        filters += kept and any(_picks(over.iter, over.target, test) for test in over.ifs)
    for _, loop in bindings.everywhere(sources, ast.For):
        tested = [n for n in each(loop, ast.If) if _picks(loop.iter, loop.target, n.test)]
        passing = any(isinstance(n.body[-1], ast.Continue) for n in tested)
        found = [f for f in _fillings(loop) if any(n.test is test for n in tested for test, _ in f.tests)]
        filters += 1 if passing else len(found)
    for _, call in bindings.everywhere(sources, ast.Call):
        part = receiver_of(call) if is_method_call(call, "parameters") else None
        filters += isinstance(part, ast.Call) and is_name(part.func, "getattr")
    return filters == 1 or _is_given_elsewhere(sources, optimizers, loose)


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
            given |= {t.removeprefix("self.").removesuffix(".parameters") for t in whole}
    return bool(loose) and all(any(f".{text}." in f".{name}." for text in given) for name in loose)


def is_initialised(sources: SourceTexts, name: str) -> bool:
    """Whether the program begins a parameter, or one after the other in a loop, by a function that is for that:
    ``nn.init.xavier_uniform_(self.weight)``, ``self.weight.data.uniform_(-a, a)``."""
    last = name.rpartition(".")[2]
    for _, call in bindings.everywhere(sources, ast.Call):
        if not last_word(call.func).endswith("_"):
            continue
        on = [*call.args[:1], *([call.func.value] if is_method_call(call) else [])]
        texts = [bindings.text_of(e).removesuffix(".data") for e in on]
        of_loop = "init" in bindings.text_of(call.func) and any(text.isidentifier() for text in texts)
        if of_loop or last in {text.rpartition(".")[2] for text in texts}:
            return True
    return False


def _fillings(loop: ast.For) -> list[_Filling]:
    """What this loop over the parameters of a module puts where."""
    call = loop.iter
    if not is_method_call(call):
        return []
    target, variable = loop.target, ""
    if call.func.attr == "named_parameters" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        variable, target = bindings.text_of(target.elts[0]), target.elts[1]
    elif call.func.attr != "parameters":
        return []
    if not isinstance(target, ast.Name):
        return []
    module = bindings.text_of(call.func.value)
    found = []
    todo: list[tuple[Block, tuple[tuple[ast.expr, bool], ...]]] = [(loop.body, ())]
    for block, tests in todo:
        for statement in block:
            if isinstance(statement, ast.If):
                todo += [(statement.body, (*tests, (statement.test, True)))]
                todo += [(statement.orelse, (*tests, (statement.test, False)))]
            elif group := _filled(statement, target.id):
                found.append(_Filling(group, module, variable, tests, statement))
    return found


def _filled(statement: ast.stmt, parameter: str) -> str:
    """``group`` of ``group.append(p)`` and ``group["params"].append(p)``; empty for any other statement."""
    call = bare_call(statement)
    if not is_method_call(call, "append"):
        return ""
    if [bindings.text_of(a) for a in call.args] != [parameter]:
        return ""
    group = without_subscripts(call.func.value)
    return group.id if isinstance(group, ast.Name) else ""


def _is_forgotten(scope: Scope, block: Block, at: int, filling: _Filling) -> bool:
    """Whether the group is bound in front of the loop, and read by nothing until it is assigned again or the function
    ends."""
    bound = [i for i, s in enumerate(block) if _binds(s, filling.group)]
    start = max((i for i in bound if i < at), default=-1)
    if start < 0:
        return False
    end = min((i for i in bound if i > at), default=len(block))
    first, last = block[start].lineno, block[end].end_lineno if end < len(block) else scope.end_lineno
    inside = {id(n) for s in block[start + 1 : end] for n in walked(s)}
    written = {id(n) for s in walked(scope) for n in _names_written(s, filling.group)}
    for n in each(scope, ast.Name):
        if n.id != filling.group or not is_read(n) or id(n) in written:
            continue
        if id(n) in inside or (first <= n.lineno <= (last or n.lineno)):
            return False
    return not any(_is_inner(n) and filling.group in bindings.names_in(n) for n in walked(scope) if n is not scope)


def _is_inner(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether this gives ``name`` a new value: only what is made in place is nobody else's."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict | ast.List | ast.Call):
        return False
    return [bindings.text_of(t) for t in statement.targets] == [name]


def _names_written(statement: ast.AST, name: str) -> list[ast.Name]:
    """The names in ``group["params"] = []`` and ``group.append(p)``, by which a group is filled and not read."""
    method, on = method_of(statement)
    targets = [t for t in getattr(statement, "targets", ()) if isinstance(t, ast.Subscript)]
    bases = [without_subscripts(t) for t in (*targets, *([on] if on is not None and method == "append" else []))]
    return [b for b in bases if is_name(b, name)]


def _taken(filling: _Filling, names: list[str]) -> list[str] | None:
    """Which of these parameters the loop puts into its group; None where the source does not tell."""
    found = []
    for name in names:
        own = _own_name(filling.module, name)
        passes = [_passes(test, filling.variable, own, wanted) for test, wanted in filling.tests] if own else [False]
        if None in passes:
            return None
        if all(passes):
            found.append(name)
    return found


def _own_name(module: str, name: str) -> str:
    """The parameter's name within its module, which the loop calls ``module``; empty where it lies elsewhere."""
    parts, last = name.split("."), module.rpartition(".")[2]
    at = parts.index(last) if last in parts[:-1] else 0
    return ".".join(parts[at + 1 :])


def _passes(test: ast.expr, variable: str, name: str, wanted: bool) -> bool | None:
    if isinstance(test, ast.Attribute) and test.attr == "requires_grad":
        return wanted
    holds = lets_through(test, variable, name)
    return None if holds is None else holds is wanted


def _handed(block: Block, group: str) -> str:
    """``groups.append(group)``, where the block does so with another group of this name."""
    calls = [c for s in block if is_method_call(c := bare_call(s), "append")]
    texts = {bindings.text_of(c) for c in calls if [bindings.text_of(a) for a in c.args] == [group]}
    return texts.pop() if len(texts) == 1 else ""


# Iterators of parameters: what can be gone through only once, and has a name by which it is used again.

ITERATORS = {"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"}
"""Methods of a module that give a generator."""


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
    names = [module, *(bindings.dotted(b.value) for b in behind(sources, found[-1].stack, parse_expression(module)))]
    known = [m for m in names if m and _learning(parameters, m)]
    # A module of another name here than where the run has found it: none of what it found is frozen.
    whole = not known and all(map(asks_for_gradient, tests)) and all(p.buffer or p.requires_grad for p in parameters)
    if not module or not (whole or any(_kept(value, own) for m in known for own in _learning(parameters, m))):
        return None
    part = isinstance(value, ast.GeneratorExp) and not all(asks_for_gradient(c) for c in value.generators[0].ifs)
    statement = found[-1].stack[-1]
    return OneShot(name, module, bindings.frame_of(sources, statement.file, value), statement, part)


def module_of(value: ast.expr) -> tuple[str, list[ast.expr]]:
    """The module whose parameters this iterator gives, in the program's words, and the conditions that they have to
    meet; no module for any other expression."""
    if isinstance(value, ast.GeneratorExp) and len(value.generators) == 1:
        loop = value.generators[0]
        plain = isinstance(value.elt, ast.Name) and bindings.text_of(value.elt) in bindings.names_in(loop.target)
        module, tests = module_of(loop.iter) if plain else ("", [])
        return module, [*tests, *loop.ifs]
    if not isinstance(value, ast.Call):
        return "", []
    function = bindings.dotted(value.func)
    if function == "filter" and len(value.args) == 2:
        test = value.args[0]
        if not isinstance(test, ast.Lambda) or not asks_for_gradient(test.body):
            return "", []
        module, tests = module_of(value.args[1])
        return module, [*tests, test.body]
    owner, _, method = function.rpartition(".")
    base = receiver_of(value)
    if isinstance(base, ast.Call) and last_word(base.func) == "ModuleList" and len(base.args) == 1:
        owner, method = bindings.dotted(base.args[0]), last_word(value.func)  # a list's modules, gathered for this call
    return owner if method in ITERATORS else "", []


def asks_for_gradient(node: ast.expr) -> bool:
    """Whether a condition is the flag of a parameter, and nothing else."""
    return isinstance(node, ast.Attribute) and node.attr == "requires_grad"


def _kept(value: ast.expr, own: str) -> bool:
    """Whether a generator's conditions surely let a trainable parameter through whose name in its module is ``own``."""
    if not isinstance(value, ast.GeneratorExp):
        return True
    loop = value.generators[0]
    pair = loop.target.elts if isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2 else []
    named = isinstance(loop.iter, ast.Call) and bindings.dotted(loop.iter.func).endswith(".named_parameters")
    variable = pair[0].id if named and pair and isinstance(pair[0], ast.Name) else ""
    return all(asks_for_gradient(c) or lets_through(c, variable, own) is True for c in loop.ifs)


def _learning(parameters: list[Parameter], module: str) -> list[str]:
    """The names, within this module, of those of the run's parameters in it that require gradients."""
    last = module.rpartition(".")[2]
    found = []
    for p in parameters:
        if p.buffer or not p.requires_grad:
            continue
        if p.name.startswith(f"{module}."):
            found.append(p.name.removeprefix(f"{module}."))
        elif f".{last}." in f".{p.name}" or f".{last}[" in f".{p.name}":
            found.append(f".{p.name}".rpartition(f".{last}")[2].partition(".")[2])
    return found


# Values that are computed from a leaf made in the same expression: ``torch.exp(nn.Parameter(...))``.


def makes_parameter(carries: list[Carried]) -> bool:
    """Whether any of the values comes straight from an operation around ``Parameter(...)``.

    Such a parameter has no name and is in no optimizer, and yet it was written to be trained.
    """
    values = (_expression(c.run.sources, user_line(c.made)) for c in carries)
    inner = (call for value in values if value is not None for call in _calls_inside(value))
    return any(last_word(call.func) == "Parameter" for call in inner)


def _expression(sources: SourceTexts, frame: Frame | None) -> ast.expr | None:
    """The expression that stands exactly at a frame, else the call there."""
    return expression_at(sources, frame) or call_at(sources, frame)


def leaf_inside(value: ast.expr) -> bool:
    """Whether an expression makes one tensor that is to learn and computes on with it: what it gives is no leaf."""
    return sum(map(_makes_leaf, _calls_inside(value))) == 1


def _calls_inside(value: ast.expr) -> list[ast.Call]:
    return [n for n in each(value, ast.Call) if n is not value]


def _makes_leaf(call: ast.Call) -> bool:
    return last_word(call.func) == "Parameter" or is_flagged(call)


def is_flagged(call: ast.Call) -> bool:
    """Whether what a call gives is to have a gradient: ``randn(3, requires_grad=True)``, ``x.requires_grad_()``."""
    return last_word(call.func) == "requires_grad_" or is_constant(keyword(call, "requires_grad"), True)


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
        position = bindings.position_of_argument(run.sources, frame, wanted)
        if position is None or number + 1 >= len(own):
            return None
        between = stack[own[number + 1] + 1 : index]
        if any(not f.function.endswith(_MODULE_CALLS) for f in between):
            head = bindings.function_head(run.sources, frame)
            return MadeInput(wanted, head, given=True) if head is not None else None
        given = bindings.names_in(bindings.given_as(run.sources, frame, stack[own[number + 1]], wanted))
        if not given:
            return None
        wanted = given[0]
    return None
