"""Give the branch that a ``torch.where`` does not take a harmless input: ``where(c, log(x), 0)`` →
``where(c, log(where(c, x, 1.0)), 0)``.

Args:
    branches: list of ``{"place": the function that has no value there, "safe": a value that it has one for}``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import insert_before, write
from graphdoc.source.module import Source
from graphdoc.source.operands import operand_of
from graphdoc.source.places import Edit

KIND = "where_twice"


def edit(sources: Sources, args: Args) -> list[Edit]:
    branches = required(args, "branches")
    by_input = _by_input(sources, branches)
    if by_input:
        return by_input
    edits: list[Edit] = []
    for branch in branches:
        source, node = expression(sources, branch["place"])
        operand = operand_of(node, str(branch.get("function", "")))
        if operand is None:
            raise CannotFix("what the branch is given does not stand in its own words there")
        where, taken = _choice(source, node)
        condition = where.args[0]
        if any(isinstance(n, ast.Call) and ast.dump(n) == ast.dump(where) for n in ast.walk(operand)):
            raise CannotFix("the branch has a choice of its own")
        template = f"torch.where({'{condition}' if taken else '~{condition}'}, {{operand}}, {branch['safe']})"
        new = write(source, operand, template, condition=condition, operand=operand)
        if not any(new.at and e.at and (e.at.holds(new.at) or new.at.holds(e.at)) for e in edits if e.file == new.file):
            edits.append(new)
    return edits


def _by_input(sources: Sources, branches: list[Args]) -> list[Edit]:
    """Where the condition compares one name with a number: that name gets a harmless value of its own in each branch.

    So everything in the branch is safe, and the name's gradient is added up as without the choice.
    """
    edits: dict[Edit, None] = {}
    regions: dict[str, ast.AST] = {}
    """By the line that gives a branch its own input: what reads that."""
    behind: dict[ast.stmt, tuple[Source, list[str]]] = {}
    for branch in branches:
        source, node = expression(sources, branch["place"])
        where, taken = _choice(source, node)
        condition, argument = where.args[0], where.args[1 if taken else 2]
        owner = source.node_owner(node)
        safe = _satisfying(condition, taken)
        region: ast.AST = argument if any(n is node for n in ast.walk(argument)) else getattr(owner, "value", node)
        if owner is None or not safe or not isinstance(condition, ast.Compare):
            return []
        name = ast.unparse(condition.left)
        chosen = (f"{name}, {safe}", f"{safe}, {name}")[not taken]
        value = f"torch.where({source.segment(condition)}, {chosen})"
        own = _own_name(name, argument, value, regions)
        line = f"{own} = {value}"
        if any(line != other and _overlap(region, r) for other, r in regions.items()):
            return []
        regions.setdefault(line, region)
        lines = behind.setdefault(owner, (source, []))[1]
        lines += [line] if line not in lines else []
        for n in ast.walk(region):
            if isinstance(n, ast.Name) and n.id == name:
                edits[write(source, n, own)] = None
    placed = [e for owner, (source, lines) in behind.items() for e in insert_before(source, owner, lines)]
    return [*placed, *edits]


def _own_name(name: str, argument: ast.expr, value: str, lines: dict[str, ast.AST]) -> str:
    """How a branch calls its own input: ``x_inside``, and ``x_inside2`` where that name has another value."""
    base = f"{name}_{argument.id if isinstance(argument, ast.Name) else 'inside'}"
    own, number = base, 1
    while any(line.startswith(f"{own} = ") and line != f"{own} = {value}" for line in lines):
        number += 1
        own = f"{base}{number}"
    return own


def _overlap(one: ast.AST, other: ast.AST) -> bool:
    return any(n is other for n in ast.walk(one)) or any(n is one for n in ast.walk(other))


def _satisfying(condition: ast.expr, taken: bool) -> str:
    """A number for which ``x < 1`` and its like are true, or false; empty for any other condition."""
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1 or not isinstance(condition.left, ast.Name):
        return ""
    try:
        bound = float(ast.literal_eval(condition.comparators[0]))
    except (ValueError, TypeError, SyntaxError):
        return ""
    below, above = (bound - abs(bound) / 2, bound + abs(bound)) if bound else (-1.0, 1.0)
    operator = condition.ops[0]
    if isinstance(operator, ast.Lt | ast.LtE):
        return str(below if taken else above)
    if isinstance(operator, ast.Gt | ast.GtE):
        return str(above if taken else below)
    differs = isinstance(operator, ast.NotEq) == taken
    return str(above) if isinstance(operator, ast.Eq | ast.NotEq) and differs else ""


def _choice(source: Source, node: ast.expr) -> tuple[ast.Call, bool]:
    """The ``torch.where`` that chooses between this expression and another, the innermost of several, and whether it
    takes it where true."""
    function = source.node_function(node)
    owner = source.node_owner(node)
    bound = {t.id for t in getattr(owner, "targets", ()) if isinstance(t, ast.Name)}
    around: list[tuple[ast.Call, bool]] = []
    named: list[tuple[ast.Call, bool]] = []
    for call in ast.walk(function or source.tree or ast.Module([], [])):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "torch.where" or len(call.args) != 3:
            continue
        for number, argument in enumerate(call.args[1:]):
            if any(n is node for n in ast.walk(argument)):
                around.append((call, number == 0))
            elif isinstance(argument, ast.Name) and argument.id in bound and call.lineno >= node.lineno:
                named.append((call, number == 0))
    if not around and not named:
        raise CannotFix("the choice and its branch do not stand in one function")
    return around[-1] if around else named[0]  # ast.walk comes to what is inside later
