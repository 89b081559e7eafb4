"""Keep a computation, or its gradient, finite: guard what a function is given, or choose another form."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, both_at, call, expression, kind, required, statement
from graphdoc.source.edits import Piece, copied, insert_after, insert_before, rename, set_keyword, write, written
from graphdoc.source.expressions import factor_of, is_number, name_of, operand_of
from graphdoc.source.layout import is_compound
from graphdoc.source.module import (
    Function,
    Source,
    each,
    given_to,
    is_method_call,
    is_within,
    keyword,
    receiver_of,
    values_of,
)
from graphdoc.source.paths import (
    is_attribute,
    is_name,
    is_path,
    is_read,
    key,
    last_word,
    only,
    path_of,
    plain_names,
    sole_target,
    targets_of,
)
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, is_torchs, name_for, parameters, reads, scope_of, stands_for, torch_name


@kind("guard_operand", expression, keeps_finite=True)
def guard_operand(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Keep what a function is given inside of its domain: ``torch.log(p)`` → ``torch.log(p.clamp_min(1e-12))``.

    Args:
        place: the expression: a call, a division (its divisor is meant) or a power (its base).
        guard: the method call to put behind the operand: ``clamp_min(1e-12)``; ``{operand}`` in it is the operand once
            more. A ``clamp(a, b)`` of numbers that the operand already ends in is exchanged for one that is given as
            ``clamp(…)``.
        function: the function of PyTorch's that runs there, where its operand is a later argument.
        side: of a product, the factor that is meant: 0 or 1.
        argument: the number of the argument that is meant, where the function runs inside of the one that is called;
            it has to be the only one.
    """
    guard = str(required(args, "guard"))
    side = args.get("side")
    if "argument" in args:
        given = given_to(node) if isinstance(node, ast.Call) else []
        operand = given[int(args["argument"])] if len(given) == 1 and is_path(given[0]) else None
    elif side is None:
        operand = operand_of(source, node, str(args.get("function", "")))
    else:
        operand = factor_of(node, int(side))
    if operand is None:
        raise CannotFix("what the function is given does not stand in its own words there")
    if "{operand}" in guard and not is_path(operand):
        raise CannotFix("what the function is given would be computed twice")
    inner = _clamped_by_numbers(source, operand) if guard.startswith("clamp(") else None
    if inner is not None:
        return [write(source, operand, f"{{inner}}.{guard}", inner=inner)]
    return [write(source, operand, f"{{operand}}.{guard}", operand=operand)]


@kind("bound_name", expression, keeps_finite=True)
def bound_name(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Keep a value inside of a bound for all that is computed from it: ``a = a.clamp_max(20.0)`` before its first use.

    Args:
        place: the expression that is not finite without.
        name: the value's name in the function around it, where it is given to the function or bound once.
        guard: the method call that bounds it.
    """
    name, scope = str(required(args, "name")), scope_of(source, node)
    line = f"{name} = {name}.{required(args, 'guard')}"
    inside = (n for s in scope.body for n in each(s, ast.stmt))
    found = [s for s in inside if any(name in plain_names(t) for t in targets_of(s))]
    if isinstance(scope, Function) and name in parameters(scope) and not found:
        return insert_before(source, next(s for s in scope.body if reads(s, name)), [line])
    if len(found) != 1 or not isinstance(found[0], ast.Assign) or reads(found[0], name):
        raise CannotFix("the value is not bound in one place")
    if source.node_loop(found[0]) is not source.node_loop(node):
        raise CannotFix("the value is bound once, and used in each round of a loop")
    return insert_after(source, found[0], [line])


def _clamped_by_numbers(source: Source, node: ast.expr) -> ast.expr | None:
    """What ``x.clamp(0, 1)`` or ``torch.clip(x, 0, 1)`` keeps between two numbers; None for anything else."""
    if name_of(node) not in ("clamp", "clip") or not isinstance(node, ast.Call):
        return None
    inner = operand_of(source, node)
    bounds = [v for v in given_to(node) if v is not inner]
    return inner if len(bounds) == 2 and all(is_number(b) for b in bounds) else None


@kind("where_twice")
def where_twice(sources: Sources, args: Args) -> list[Edit]:
    """Give the branch that a ``torch.where`` does not take a harmless input: ``where(c, log(x), 0)`` →
    ``where(c, log(where(c, x, 1.0)), 0)``.

    Args:
        branches: list of ``{"place": the function that has no value there, "safe": a value that it has one for}``.
    """
    branches = required(args, "branches")
    by_input = _by_input(sources, branches)
    if by_input:
        return by_input
    edits: list[Edit] = []
    for branch in branches:
        source, node = expression(sources, branch["place"])
        operand = operand_of(source, node, str(branch.get("function", "")))
        if operand is None:
            raise CannotFix("what the branch is given does not stand in its own words there")
        where, taken = _choice(source, node)
        condition = where.args[0]
        if any(ast.dump(n) == ast.dump(where) for n in each(operand, ast.Call)):
            raise CannotFix("the branch has a choice of its own")
        chosen = f"{'{condition}' if taken else '~{condition}'}, {{operand}}, {branch['safe']}"
        template = f"{ast.unparse(where.func)}({chosen})"
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
        region: ast.AST = argument if is_within(node, argument) else getattr(owner, "value", node)
        if owner is None or not safe or not isinstance(condition, ast.Compare):
            return []
        name = ast.unparse(condition.left)
        chosen = (f"{name}, {safe}", f"{safe}, {name}")[not taken]
        value = f"{ast.unparse(where.func)}({source.segment(condition)}, {chosen})"
        own = _own_name(name, argument, value, regions)
        line = f"{own} = {value}"
        if any(line != other and (is_within(r, region) or is_within(region, r)) for other, r in regions.items()):
            return []
        reading = _reading(source, owner, region, name)
        if not reading:
            return []
        regions.setdefault(line, region)
        lines = behind.setdefault(reading[-1][0], (source, []))[1]
        lines += [line] if line not in lines else []
        for n in (n for _, r in reading for n in each(r, ast.Name)):
            if n.id == name:
                edits[write(source, n, own)] = None
    placed = [e for owner, (source, lines) in behind.items() for e in insert_before(source, owner, lines)]
    return [*placed, *edits]


def _reading(source: Source, owner: ast.stmt, region: ast.AST, name: str) -> list[tuple[ast.stmt, ast.AST]]:
    """What a branch is computed from that reads ``name``, with its statement, the nearest first: the branch itself, or
    values above that go into it and nowhere else. Empty where there is none."""
    found, block = [(owner, region)], source.node_block(owner)
    for above in reversed(block[0][: block[1]]) if block is not None and not reads(region, name) else ():
        target = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
        if isinstance(above, ast.Assign) and isinstance(target, ast.Name):
            every = (n for n in each(scope_of(source, owner), ast.Name) if n.id == target.id and n is not target)
            same = [n for n in every if not last_word(getattr(source.parents[n], "func", n)).endswith("_like")]
            if same and all(any(is_within(n, r) for _, r in found) for n in same):
                found.append((above, above.value))
    return [(s, r) for s, r in found if reads(r, name)]


def _own_name(name: str, argument: ast.expr, value: str, lines: dict[str, ast.AST]) -> str:
    """How a branch calls its own input: ``x_inside``, and ``x_inside2`` where that name has another value."""
    base = f"{name}_{argument.id if isinstance(argument, ast.Name) else 'inside'}"
    own, number = base, 1
    while any(line.startswith(f"{own} = ") and line != f"{own} = {value}" for line in lines):
        number += 1
        own = f"{base}{number}"
    return own


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
    for chosen in each(function or source.tree, ast.Call):
        if stands_for(source, chosen.func) != "torch.where" or len(chosen.args) != 3:
            continue
        for number, argument in enumerate(chosen.args[1:]):
            if is_within(node, argument):
                around.append((chosen, number == 0))
            elif isinstance(argument, ast.Name) and argument.id in bound and chosen.lineno >= node.lineno:
                named.append((chosen, number == 0))
    if not around and not named:
        raise CannotFix("the choice and its branch do not stand in one function")
    return around[-1] if around else named[0]  # ast.walk comes to what is inside later


@kind("spread_diagonal", expression)
def spread_diagonal(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Make a symmetric matrix's eigenvalues distinct: ``eigh(a)`` → ``eigh(a + 1e-4 * torch.arange(n).to(a).diag())``.

    Args:
        jitter: the source of the distance between two elements that are added to the diagonal.
    """
    matrix, owner = operand_of(source, node), source.node_owner(node)
    if matrix is None or owner is None or is_compound(owner) or source.runs_apart(node, owner):
        raise CannotFix("the matrix has no name, and cannot be given one there")
    named = isinstance(matrix, ast.Name)
    name = ast.unparse(matrix) if named else fresh_name(source, "matrix", "decomposed")
    torch = torch_name(source, node)
    new = f"{name} + {required(args, 'jitter')} * {torch.text}.arange({name}.shape[-1]).to({name}).diag()"
    made = written(source, f"{name} = {{value}}", value=copied(source, matrix))
    bound = [] if named else insert_before(source, owner, [made])
    return [*torch.edits, *bound, write(source, matrix, new)]


@kind("log_sum_exp", expression, keeps_finite=True)
def log_sum_exp(source: Source, node: ast.expr, _: Args) -> list[Edit]:
    """Take the logarithm of a sum of exponentials in one function, which leaves no range.

    ``s = (w * x.exp()).sum(1)`` with ``torch.log(s)`` behind it → ``s = torch.logsumexp(torch.log(w) + x, dim=1)``,
    ``s``. The logarithm of the exponential itself is what that was given: ``x``; that of a sum with one more term is
    ``F.softplus(x)``, with another exponential ``torch.logaddexp(x, y)``.
    """
    inner, torch = operand_of(source, node), torch_name(source, node)
    total, dim = _sum_around(source, node)
    if inner is None:
        raise CannotFix("what the exponential is given does not stand in its own words there")
    if total is None or dim is None:
        return _in_its_place(source, node, "{inner}", {"inner": inner})
    summed = total.func.value if is_method_call(total) else node
    if is_torchs(source, summed):
        summed = total.args[0]
    weight = _weight(summed, node)
    exponent, parts = "{inner}", dict[str, Piece](inner=inner, dim=dim)
    softmax: ast.expr | None = None
    if summed is not node:
        if weight is None:
            raise CannotFix("the exponential is not simply weighted and summed")
        softmax = _softmax_behind(source, weight)
        # The logarithm of a softmax has a function of its own, which does not underflow.
        exponent = (f"{torch.text}.log({{weight}})" if softmax is None else "{weight}") + " + {inner}"
        parts["weight"] = weight
    new = f"{torch.text}.logsumexp({exponent}, dim={{dim}})"
    also = [rename(source, softmax, "log_softmax")] if softmax is not None else []
    return [*_in_its_place(source, total, new, parts), *also, *torch.edits]


def _in_its_place(source: Source, total: ast.expr, new: str, parts: dict[str, Piece]) -> list[Edit]:
    """Write the logarithm of ``total``, or of a sum that it is a term of, where that is taken; with either under a
    name, for the name.

    Raises:
        CannotFix: something else is computed from it as well.
    """
    outer = source.node_method_of(total) or source.parents.get(total)
    name = name_of(outer) if isinstance(outer, ast.Call) and operand_of(source, outer) is total else ""
    if isinstance(outer, ast.Call) and name in ("log", "log1p") and len(outer.args) < 2:
        new, parts, also = (new, parts, []) if name == "log" else _with_term(source, total, ast.Constant(1), new, parts)
        return [write(source, outer, new, **parts), *also]
    if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add):
        new, parts, also = _with_term(source, total, outer.left if outer.right is total else outer.right, new, parts)
        return [*_in_its_place(source, outer, new, parts), *also]
    named = sole_target(outer)
    if outer is None or not isinstance(named, ast.Name) or named is total:
        raise CannotFix("the logarithm is not taken where it can be seen")
    name, function = named.id, scope_of(source, outer)
    uses = [n for n in each(function, ast.Name) if n.id == name and n is not named]
    try:
        logged = [edit for n in uses for edit in _in_its_place(source, n, name, {})]
    except CannotFix:
        logged = []
    if not logged:
        raise CannotFix(f"`{name}` is used for something else than its logarithm")
    return [write(source, total, new, **parts), *logged]


def _with_term(
    source: Source, at: ast.expr, term: ast.expr, new: str, parts: dict[str, Piece]
) -> tuple[str, dict[str, Piece], list[Edit]]:
    """The logarithm of a sum, in one function, of what has the logarithm ``new`` and of one more term: another
    exponential, or a number."""
    torch, other = torch_name(source, at), operand_of(source, term)
    if name_of(term) == "exp" and other is not None:
        piece = f"other{len(parts)}"
        return f"{torch.text}.logaddexp({new}, {{{piece}}})", {**parts, piece: other}, [*torch.edits]
    if not isinstance(term, ast.Constant) or not isinstance(term.value, int | float) or term.value <= 0:
        raise CannotFix("the other term of the sum is no exponential, and no number above zero")
    softplus = name_for(source, "torch.nn.functional.softplus", at)
    if term.value == 1:
        return f"{softplus.text}({new})", parts, [*softplus.edits]
    math = name_for(source, "math.log", at)
    log = f"{math.text}({source.segment(term)})"
    return f"{softplus.text}({new} - {log}) + {log}", parts, [*softplus.edits, *math.edits]


def _softmax_behind(source: Source, weight: ast.expr) -> ast.expr | None:
    """The function of ``w = F.softmax(…)``, where ``w`` is read nowhere else."""
    function = source.node_function(weight)
    if not isinstance(weight, ast.Name) or function is None:
        return None
    named = [n for n in each(function, ast.Name) if n.id == weight.id and n is not weight]
    owner = source.parents.get(named[0]) if len(named) == 1 else None
    value = owner.value if isinstance(owner, ast.Assign) and len(owner.targets) == 1 else None
    if is_method_call(value, "softmax"):
        return value.func
    return None


def _sum_around(source: Source, node: ast.expr) -> tuple[ast.Call | None, ast.expr | None]:
    """The sum over one dimension around the exponential, with at most a product between them."""
    at: ast.AST | None = source.parents.get(node)
    for _ in range(4):
        if is_method_call(at, "sum"):
            given = at.args[is_torchs(source, at.func.value) :]
            given += [k.value for k in at.keywords if k.arg == "dim"]
            return (at, given[0]) if len(given) == 1 and len(at.keywords) <= 1 else (None, None)
        if not isinstance(at, ast.BinOp | ast.Attribute):
            break
        at = source.parents.get(at)
    return None, None


def _weight(summed: ast.expr, node: ast.expr) -> ast.expr | None:
    if not isinstance(summed, ast.BinOp) or not isinstance(summed.op, ast.Mult):
        return None
    return summed.left if summed.right is node else summed.right if summed.left is node else None


_COUNTED = ("cross_entropy", "nll_loss")
_CRITERIA = ("CrossEntropyLoss", "NLLLoss")


@kind("mean_of_some")
def mean_of_some(sources: Sources, args: Args) -> list[Edit]:
    """Divide a loss's sum by the number of its targets that count, at least one: ``F.cross_entropy(…,
    reduction="sum") / (target != -100).sum().clamp(min=1)``; of a criterion that is made once, where it is made.

    Args:
        place: the call of the loss.
    """
    source, node = call(sources, required(args, "place"))
    made = (source, node) if last_word(node.func) in _COUNTED else _criterion(sources, node)
    mine, maker = made or (source, node)
    given = {k.arg for k in (*node.keywords, *maker.keywords)}
    if made is None or len(node.args) != 2 or given & {"weight", "reduction", "label_smoothing", None}:
        raise CannotFix("which of its targets count is not written there")
    ignored = keyword(maker, "ignore_index")
    if ignored is not None and maker is not node and not is_number(ignored):
        raise CannotFix("which target is ignored is not written there")
    counted = "{sum} / ({target} != {ignored}).sum().clamp(min=1)"
    mean = write(source, node, counted, sum=node, target=node.args[1], ignored=key(ignored) if ignored else "-100")
    return [*set_keyword(mine, maker, "reduction", '"sum"'), mean]


def _criterion(sources: Sources, node: ast.Call) -> tuple[Source, ast.Call] | None:
    """Where the criterion that is called is made: there alone, and called here alone."""
    path = path_of(node.func)
    attribute = path.rpartition(".")[2]
    every = [n for s in sources.values() for n in each(s.tree, ast.Name, ast.Attribute)]
    if sum(is_read(n) and (is_attribute(n, attribute) or is_name(n, attribute)) for n in every) != 1:
        return None
    made = [(s, value) for s in sources.values() for value in values_of(s.tree, path)] if path else []
    one = made[0][1] if len(made) == 1 else None
    known = isinstance(one, ast.Call) and last_word(one.func) in _CRITERIA and not one.args
    return (made[0][0], one) if known and isinstance(one, ast.Call) else None


@kind("select_known", statement)
def select_known(source: Source, owner: ast.stmt, args: Args) -> list[Edit]:
    """Leave out what is nan in the data before computing: ``torch.nanmean((x - y) ** 2)`` → the mean of what is known.

    Args:
        side: which side of the difference or product has nan: 0 or 1.
    """
    side = args.get("side")
    for node in each(owner, ast.Call):
        if stands_for(source, node.func) not in ("torch.nanmean", "torch.nansum") or not is_method_call(node):
            continue
        for part in each(only(node.args), ast.BinOp):
            match part:
                case ast.BinOp(left=ast.Name(), op=ast.Sub() | ast.Mult(), right=ast.Name()) if side in (0, 1):
                    pair = (part.left, part.right)
                    known = f"[~{ast.unparse(node.func.value)}.isnan({key(pair[side])})]"
                    edits = [write(source, n, f"{{values}}{known}", values=n) for n in pair]
                    return [*edits, rename(source, node.func, node.func.attr.removeprefix("nan"))]
    raise CannotFix("which elements are to take part cannot be read off the expression")


@kind("finite_fill")
def finite_fill(sources: Sources, args: Args) -> list[Edit]:
    """Mask with the smallest finite number instead of ``-inf``, so that a row that is masked out entirely has a
    softmax.

    Args:
        place: the call that writes ``-inf``, or what it is assigned to: ``bias[~mask] = -inf``.
    """
    source, owner, part = both_at(sources, required(args, "place"))
    if isinstance(part, ast.Subscript) and isinstance(owner, ast.Assign) and _is_minus_inf(source, owner.value):
        tensor, value = part.value, owner.value
    else:
        source, node = call(sources, args["place"])
        minus = [a for a in given_to(node) if _is_minus_inf(source, a)]
        if not minus:
            raise CannotFix("-inf does not stand in the call itself")
        value, filled = minus[0], receiver_of(node)
        of_tensor = is_method_call(node) and node.func.attr.startswith("masked_fill")
        if not of_tensor or not isinstance(filled, ast.Name | ast.Attribute) or is_torchs(source, filled):
            return [write(source, value, "-1e9")]
        tensor = filled
    torch = torch_name(source, value)
    return [*torch.edits, write(source, value, f"{torch.text}.finfo({{tensor}}.dtype).min", tensor=tensor)]


def _is_minus_inf(source: Source, node: ast.expr) -> bool:
    """Whether it is ``-torch.inf``, ``float("-inf")`` or the like."""
    infinity = stands_for(source, node.operand) if isinstance(node, ast.UnaryOp) and key(node)[0] == "-" else ""
    return infinity.endswith(".inf") or key(node) in ("float('-inf')", "-float('inf')", "-inf")
