"""Compute what is kept, in an attribute or a cache, each time that it is read."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, required, statement
from graphdoc.fixes.program_slices import check_known, made_of, reads, runs_later, taking_calls
from graphdoc.source.edits import (
    copied,
    delete,
    drop_decorator,
    insert_after,
    insert_before,
    instead,
    unwrap,
    write,
    written,
)
from graphdoc.source.effects import DRAWS, TAKES, another_each_time
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Function, Source, each, is_within, walked
from graphdoc.source.paths import is_name, key, last_word, plain_names, same, targets_of
from graphdoc.source.places import Copied, Edit, Text
from graphdoc.source.scopes import bound_names, parameters, stands_for


@dataclass
class _Plan:
    """The method that computes the attributes now, its class, and the statements that are to run elsewhere."""

    source: Source
    owner: ast.ClassDef
    origin: ast.FunctionDef | ast.AsyncFunctionDef
    me: str
    chosen: list[ast.stmt] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    """Arguments of the method that the statements read, and the attributes that keep them."""
    unkept: list[str] = field(default_factory=list)
    leaves: dict[ast.stmt, tuple[ast.Call, str]] = field(default_factory=dict)
    """What a statement makes once within its expression (a parameter, a draw), and the attribute that is to keep it."""


@kind("compute_in_method")
def compute_in_method(sources: Sources, args: Args) -> list[Edit]:
    """Compute attributes in the methods that read them, instead of once in ``__init__``.

    ``self.length = torch.exp(self.raw_length)`` moves to the head of ``forward``, with the statements of the same
    method that it needs. An argument of ``__init__`` that it reads is read from the attribute that keeps it; where none
    does, one is set in its place. Where the attribute is read elsewhere too (in ``__init__`` itself, or from outside of
    the class), the statement stays as well. A ``nn.Parameter(...)`` within the expression, or what is drawn there
    (``torch.rand(5)``), is made once, and kept as an attribute of its own: made anew in each call the one would never
    be trained, and the other would be another one.

    Args:
        places: the assignments to attributes, in any order (or ``place`` for one). All stand in one method.
    """
    found = [statement(sources, p) for p in args.get("places") or [required(args, "place")]]
    plan = _plan(found)
    source = plan.source
    readers = _readers(plan)
    if not readers:
        raise CannotFix("no other method of the class reads the attribute")
    edits: list[Edit] = []
    for method in readers:
        needed = made_of(plan.chosen, reads(method))
        edits += insert_before(source, first_statement(method), [_moved(plan, n) for n in needed])
    kept: list[Text] = [f"{plan.me}.{plan.given[name]} = {name}" for name in plan.unkept]
    for node in plan.chosen:
        leaf = plan.leaves.get(node)
        if _read_elsewhere(plan, sources, node, readers):
            if leaf is not None:
                raise CannotFix("what is made of it is also read elsewhere")
            continue
        if leaf is not None:
            kept.append(written(source, f"{plan.me}.{leaf[1]} = {{made}}", made=leaf[0]))
        edits += instead(source, node, kept)
        kept = []
    return [*edits, *insert_after(source, plan.chosen[-1], kept)]


def _plan(found: list[tuple[Source, ast.stmt]]) -> _Plan:
    """What to move, once it is sure that it means the same in another method."""
    source = found[0][0]
    origin = source.node_function(found[0][1])
    owner = source.parents.get(origin) if origin is not None else None
    if origin is None or not isinstance(owner, ast.ClassDef):
        raise CannotFix("the value is not computed in a method of a class")
    if not parameters(origin) or any(is_name(d, "staticmethod") for d in origin.decorator_list):
        raise CannotFix("the method has no self")
    plan = _Plan(source, owner, origin, parameters(origin)[0])
    for other, node in found:
        if other is not source or source.node_function(node) is not origin:
            raise CannotFix("the attributes are computed in several methods")
        _take(plan, node)
    plan.chosen.sort(key=lambda n: source.span(n)[0])
    for attribute in {a for n in plan.chosen for a in _attributes_set(n, plan.me)}:
        if _set_in(plan, attribute) > 1:
            raise CannotFix(f"{plan.me}.{attribute} is assigned in several places")
    return plan


def _take(plan: _Plan, node: ast.stmt) -> None:
    """Choose a statement, and before it those of the method whose local results it reads."""
    if any(node is n for n in plan.chosen):
        return
    if plan.source.node_block(node)[0] is not plan.origin.body or not isinstance(node, ast.Assign | ast.AnnAssign):
        raise CannotFix("the value is computed under a condition or in a loop")
    if node.value is None or _builds(plan.source, node.value):
        raise CannotFix("the statement builds an object, and does not only compute a value")
    plan.chosen.append(node)
    inner = plain_names(node.value, ast.Store)
    inner |= {a.arg for n in each(node.value, ast.Lambda) for a in n.args.args}
    leaf = _leaf_within(plan, node)
    staying = {id(n) for n in walked(leaf)} if leaf is not None else set()
    local = bound_names(plan.origin) - {plan.me} - inner
    read = (n for n in each(node.value, ast.Name) if id(n) not in staying)
    for name in dict.fromkeys(n.id for n in read if n.id in local):
        bindings = [s for s in plan.origin.body if any(is_name(t, name) for t in targets_of(s)) and s is not node]
        if name in parameters(plan.origin):
            if bindings:
                raise CannotFix(f"{name} is assigned again in {plan.origin.name}")
            _keep(plan, name)
        elif len(bindings) == 1 and plan.source.span(bindings[0])[0] < plan.source.span(node)[0]:
            _take(plan, bindings[0])
        else:
            raise CannotFix(f"what {name} is at that line is not known elsewhere")


def _leaf_within(plan: _Plan, node: ast.Assign | ast.AnnAssign) -> ast.Call | None:
    """What is made once within the expression, for which the plan then has an attribute: the one ``nn.Parameter(...)``,
    else what is drawn there.
    """
    found = [c for c in each(node, ast.Call) if last_word(c.func) == "Parameter"]
    what = "parameter" if found else "drawn"
    found = found or taking_calls(node)
    inside = {id(n) for c in found for n in walked(c)}
    others = [c for c in each(node, ast.Call) if id(c) not in inside]
    if taking := next((c for c in others if last_word(c.func) in DRAWS | TAKES), None):
        raise CannotFix(f"each call would get another one from {last_word(taking.func)}()")
    if what == "drawn" and any(runs_later(plan.source, c) for c in found):
        raise CannotFix("it is drawn in some of the calls only")
    if not found:
        return None
    attributes = _attributes_set(node, plan.me)
    if len(found) > 1 or len(attributes) != 1:
        many = "parameters are made" if what == "parameter" else "numbers are drawn"
        raise CannotFix(f"several {many} within the statement")
    name = f"{attributes[0]}_{what}"
    if any(n.attr == name for n in each(plan.owner, ast.Attribute)):
        raise CannotFix(f"the class has an attribute {name} already")
    plan.leaves[node] = (found[0], name)
    return found[0]


def _keep(plan: _Plan, name: str) -> None:
    """Find, or plan, the attribute that keeps an argument of the method."""
    if name in plan.given:
        return
    for s in plan.origin.body:
        if isinstance(s, ast.Assign) and is_name(s.value, name):
            for attribute in _attributes_set(s, plan.me):
                if _set_in(plan, attribute) == 1:
                    plan.given[name] = attribute
                    return
    used = {n.attr for n in each(plan.owner, ast.Attribute)}
    plan.given[name] = name if name not in used else f"{name}_"
    plan.unkept.append(name)


def _builds(source: Source, value: ast.expr) -> bool:
    """A call of something that is named like a class: a module, a parameter, an optimizer.

    A distribution is what it computes from its arguments, and nothing more (torch.distributions).
    """
    if not isinstance(value, ast.Call):
        return False
    name = last_word(value.func)
    if stands_for(source, value.func).startswith("torch.distributions."):
        return False
    return name.lstrip("_")[:1].isupper()


def _attributes_set(node: ast.AST, me: str) -> list[str]:
    return [t.attr for t in targets_of(node) if isinstance(t, ast.Attribute) and key(t.value) == me]


def _set_in(plan: _Plan, attribute: str) -> int:
    """At how many places the class sets an attribute. What ``__init__`` alone knows as ``None``, or as another constant
    that nothing asks for, is computed at none of them."""
    places = [n for n in each(plan.owner, ast.Attribute) if n.attr == attribute and key(n.value) == plan.me]
    held = [n for n in places if _holds_a_place(plan, n)]
    asked = any(isinstance(n.ctx, ast.Load) and _is_asked(plan.source, n) for n in places)
    return sum(not isinstance(n.ctx, ast.Load) for n in places) - (0 if asked else len(held))


def _holds_a_place(plan: _Plan, target: ast.Attribute) -> bool:
    """Whether a constant is all that ``__init__`` does with an attribute, in a line of its own."""
    statement, method = plan.source.parents.get(target), plan.source.node_function(target)
    if not isinstance(method, ast.FunctionDef) or method.name != "__init__" or method is plan.origin:
        return False
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or f"{plan.me}.{target.attr}" in reads(method):
        return False
    return isinstance(statement.value, ast.Constant) and not isinstance(target.ctx, ast.Load)


def _is_asked(source: Source, node: ast.expr) -> bool:
    """Whether a choice goes by a value, as by whether it is there: ``if self.x is None``."""
    choices = (n for n in source.node_ancestors(node) if isinstance(n, ast.If | ast.IfExp | ast.While | ast.Assert))
    return any(is_within(node, n.test) for n in choices) or isinstance(source.parents.get(node), ast.BoolOp)


def _readers(plan: _Plan) -> list[ast.FunctionDef]:
    """The other methods that read one of the attributes, in which the statements could run."""
    wanted = {f"{plan.me}.{a}" for n in plan.chosen for a in _attributes_set(n, plan.me)}
    others = [m for m in plan.owner.body if isinstance(m, ast.FunctionDef) and m is not plan.origin]
    found = [m for m in others if parameters(m)[:1] == [plan.me] and reads(m) & wanted]
    names = {n for c in plan.chosen for n in plain_names(c)}
    for method in found:
        check_known(plan.source, names, None, method, {plan.me})
    return found


def _moved(plan: _Plan, node: ast.stmt) -> Copied:
    """The statement at its new place, arguments of the old method replaced by the attributes that keep them."""
    value: ast.expr = node.value  # type: ignore[attr-defined]
    leaf = plan.leaves.get(node)
    within = set(walked(leaf[0])) if leaf is not None else set()
    names = [n for n in each(value, ast.Name) if n.id in plan.given and n not in within]
    kept: list[tuple[ast.expr, str]] = [(n, plan.given[n.id]) for n in names]
    kept += [leaf] if leaf is not None else []
    return copied(plan.source, node, [write(plan.source, n, f"{plan.me}.{attribute}") for n, attribute in kept])


def _read_elsewhere(plan: _Plan, sources: Sources, node: ast.stmt, readers: list[ast.FunctionDef]) -> bool:
    """Whether what the statement assigns is wanted where none of the new places serves."""
    moved = {id(n) for s in (*plan.chosen, *readers) for n in walked(s)}
    attributes = set(_attributes_set(node, plan.me))
    names = {t.id for t in targets_of(node) if isinstance(t, ast.Name)}
    for n in walked(plan.origin):
        if id(n) in moved or not isinstance(getattr(n, "ctx", None), ast.Load):
            continue
        if (isinstance(n, ast.Attribute) and n.attr in attributes) or (isinstance(n, ast.Name) and n.id in names):
            return True
    own = {id(n) for n in walked(plan.owner)}
    for source in sources.values():
        for n in walked(source.tree) if attributes else ():
            if isinstance(n, ast.Attribute) and n.attr in attributes and id(n) not in own:
                return True
    return False


_DECORATORS = ("lru_cache", "cache")


@kind("uncache")
def uncache(sources: Sources, args: Args) -> list[Edit]:
    """Compute a cached value each time.

    ``if key not in cache: cache[key] = expr`` (also ``is None``, ``not hasattr``, ``not x``) becomes its body; ``if key
    in cache: return cache[key]`` goes; with an ``else`` the computing branch stays; ``@lru_cache`` and ``@cache`` are
    removed, and ``@cached_property`` becomes ``@property``.

    Args:
        place: anything in the ``if`` (its test, the assignment, the return), the statement that stores what an ``if``
            of the same function returns from there, or the function with the decorator.
    """
    source, node = statement(sources, required(args, "place"))
    for above in (node, *source.node_ancestors(node)):
        if isinstance(above, ast.If):
            present = _present(above.test)
            if present is not None and (present or _fills(above)):
                _refuse_draws(source.node_function(above) if present else above)
                return _without(source, above, present)
        if isinstance(above, Function):
            for decorator in above.decorator_list:
                name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if name.split(".")[-1] in (*_DECORATORS, "cached_property"):
                    _refuse_draws(above)
                if name.split(".")[-1] in _DECORATORS:
                    return drop_decorator(source, above, decorator)
                if name.split(".")[-1] == "cached_property":
                    return [write(source, decorator, "property")]
            returning = _returning(source, above, node)
            if returning is not None:
                _refuse_draws(above)
                return _without(source, returning, True)
            break
    raise CannotFix("no cache is recognised around that place")


def _refuse_draws(node: ast.AST | None) -> None:
    """Refuse where the value is drawn: computed each time it would be another one each time."""
    drawing = another_each_time(node) if node is not None else ""
    if drawing:
        raise CannotFix(f"`{drawing}` gives another value each time")


def _fills(node: ast.If) -> bool:
    """Whether the branch for a missing value stores what its test asks for; of a key or attribute that is known."""
    test = node.test
    if isinstance(test, ast.UnaryOp):
        asked: ast.expr | None = test.operand
    else:
        asked = test.left if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq) else None
    if not isinstance(asked, ast.Name | ast.Attribute):
        return True
    stored = [t for s in node.body for n in walked(s) for t in targets_of(n)]
    return any(same(t, asked) or (isinstance(t, ast.Subscript) and same(t.value, asked)) for t in stored)


def _returning(source: Source, function: Function, stored: ast.stmt) -> ast.If | None:
    """The ``if`` that returns what a statement stores, where it is there already; None where there is none."""
    targets = stored.targets if isinstance(stored, ast.Assign) else []
    for node in each(function, ast.If):
        if source.node_function(node) is not function or not _present(node.test):
            continue
        last = node.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        while value is not None:  # cache[k], cache[k].to(device), cache[:n]
            if any(same(t, value) for t in targets):
                return node
            value = value.func if isinstance(value, ast.Call) else getattr(value, "value", None)
    return None


def _without(source: Source, node: ast.If, present: bool) -> list[Edit]:
    above = source.parents.get(node)
    if isinstance(above, ast.If) and node in above.orelse and source.code.startswith("elif", source.span(node)[0]):
        raise CannotFix("the cache is one of several branches")
    if not present:
        return unwrap(source, node)
    if node.orelse:
        return unwrap(source, node, node.orelse)
    if len(source.node_block(node)[0]) < 2 or not isinstance(node.body[-1], ast.Return):
        raise CannotFix("nothing would compute the value")
    return delete(source, node)


def _present(test: ast.expr) -> bool | None:
    """True where the test holds for a cached value, False where for a missing one, None where it is no such test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _present(test.operand)
        missing = False if isinstance(test.operand, ast.Name | ast.Attribute) else None
        return not inner if inner is not None else missing
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        # Whatever else has to hold: without the branch the value is computed.
        return True if any(_present(operand) is True for operand in test.values) else None
    if isinstance(test, ast.Call):
        return True if getattr(test.func, "id", "") == "hasattr" else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    operator, right = test.ops[0], test.comparators[0]
    none = isinstance(right, ast.Constant) and right.value is None
    asks = ast.Is | ast.IsNot | ast.Eq | ast.NotEq if none else ast.In | ast.NotIn
    return isinstance(operator, ast.In | ast.IsNot | ast.NotEq) if isinstance(operator, asks) else None
