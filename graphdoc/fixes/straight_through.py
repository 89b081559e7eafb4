"""A way for the gradient where a derivative is zero: past a rounding, and in the place of a yes or no."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, expression, kind, last_name, required
from graphdoc.source.edits import Piece, copied, insert_before, write, written
from graphdoc.source.expressions import operand_of
from graphdoc.source.module import Source, each, keyword
from graphdoc.source.paths import is_constant, is_name, only, path_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, torch_name

_FLAT = {"round", "floor", "ceil", "trunc", "sign", "sgn", "fix"}
_CASTS = ("float", "double", "half", "bfloat16", "type", "to", "type_as")
_ABOVE = {ast.Gt: True, ast.GtE: True, ast.Lt: False, ast.LtE: False}
_METHODS = {"gt": True, "ge": True, "greater": True, "lt": False, "le": False, "less": False}
_SINGLE = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr


@kind("straight_through", expression)
def straight_through(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Send the gradient past a rounding: ``torch.round(x)`` → ``x + (torch.round(x) - x).detach()``. Past a yes or no
    that is used as a number it is that of a sigmoid: ``soft = torch.sigmoid(x - t)`` in front, and ``(x > t).float()``
    → ``(x > t).float() + (soft - soft.detach())``, which has the value of the decision to the bit. Past a choice that
    is drawn, ``one_hot(d.sample(), 4).float()``, it is that of the probabilities ``d.probs``.

    Args:
        hot: optional; True where the draw itself is one-hot.
    """
    name = last_name(node)
    if name == "sample" and isinstance(node, ast.Call):
        return [_past_draw(source, node, bool(args.get("hot")))]
    if isinstance(node, ast.Compare) or name in _METHODS:
        return _past_decision(source, node)
    if name not in _FLAT:
        raise CannotFix(f"{name or 'what is called'} is no rounding that is written out")
    value = operand_of(source, node)
    if value is None:
        raise CannotFix("what is rounded is not written in the call")
    if isinstance(value, ast.Name) or (isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)):
        return [write(source, node, "{x} + ({call} - {x}).detach()", x=value, call=node)]
    owner = _around(source, node)
    held = fresh_name(source, "unrounded", "before_rounding")
    rounding = copied(source, node, [write(source, value, held)])
    return [
        *insert_before(source, owner, [written(source, f"{held} = {{value}}", value=value)]),
        write(source, node, f"{held} + ({{call}} - {held}).detach()", call=rounding),
    ]


def _around(source: Source, node: ast.expr) -> ast.stmt:
    """The statement in front of which a part of this can be computed."""
    owner = source.node_owner(node)
    if not isinstance(owner, _SINGLE) or source.runs_apart(node, owner):
        raise CannotFix("a part of it has no name, and cannot be given one there")
    return owner


def _past_draw(source: Source, node: ast.Call, hot: bool) -> Edit:
    drawn = node.func.value if isinstance(node.func, ast.Attribute) else None
    if drawn is None or not path_of(drawn):
        raise CannotFix("the distribution has no name there")
    owner = source.node_owner(node)
    target = only(owner.targets) if isinstance(owner, ast.Assign) and owner.value is node else None
    name = target.id if isinstance(target, ast.Name) else ""
    calls = [
        c for c in each(source.node_function(node) or source.tree, ast.Call) if last_name(c) == "one_hot" and c.args
    ]
    choice = node if hot else only([c for c in calls if c.args[0] is node or is_name(c.args[0], name)])
    top = choice if hot or choice is None else _as_number(source, choice)
    if top is None:
        raise CannotFix("the choice does not become a row of zeros and a one there")
    return write(source, top, "{it} + ({d}.probs - {d}.probs.detach())", it=top, d=drawn)


def _past_decision(source: Source, node: ast.expr) -> list[Edit]:
    over, under = _sides(node)
    top, owner = _as_number(source, node), _around(source, node)
    if top is None:
        raise CannotFix("the answer is not used as a number there")
    held, torch = fresh_name(source, "soft", "soft_decision"), torch_name(source, node)
    soft = written(source, f"{held} = {torch.text}.sigmoid({{over}} - {{under}})", over=over, under=under)
    number = write(source, top, f"{{it}} + ({held} - {held}.detach())", it=top)
    return [*torch.edits, *insert_before(source, owner, [soft]), number]


@kind("soften_comparison", expression)
def soften_comparison(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Let a yes or no that is counted go over smoothly: ``(p > 0.5).sum()`` → ``torch.sigmoid((p - 0.5) / 0.1).sum()``.

    Args:
        width: the source of the distance over which it goes from no to yes.
    """
    over, under = _sides(node)
    if _as_number(source, node, "mean", "sum") is None:
        raise CannotFix("the answer is not counted where it is made")
    torch = torch_name(source, node)
    parts: dict[str, Piece] = {"over": over, "width": str(required(args, "width"))}
    if not (isinstance(under, ast.Constant) and under.value == 0):
        parts["under"] = under
    difference = "({over} - {under})" if "under" in parts else "{over}"
    return [*torch.edits, write(source, node, f"{torch.text}.sigmoid({difference} / {{width}})", **parts)]


def _sides(node: ast.expr) -> tuple[ast.expr, ast.expr]:
    """What is asked to be larger, and what smaller: ``a > b``, ``b.lt(a)``, ``torch.ge(a, b)``."""
    match node:
        case ast.Compare(left=first, ops=[asked], comparators=[second]) if type(asked) in _ABOVE:
            return (first, second) if _ABOVE[type(asked)] else (second, first)
        case ast.Call(func=ast.Attribute(attr=name), args=[first, second]) if name in _METHODS:
            return (first, second) if _METHODS[name] else (second, first)
        case ast.Call(func=ast.Attribute(attr=name, value=first), args=[second]) if name in _METHODS:
            return (first, second) if _METHODS[name] else (second, first)
    raise CannotFix("it is not asked there which of two values is larger")


@kind("probability_for_decision", expression)
def probability_for_decision(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Let a loss be made of the probability that a decision was made from: ``(p > 0.5).float()`` → ``p``, and of two
    scores ``s.argmax(1, keepdim=True).float()`` → ``s.softmax(1).narrow(1, 1, 1)``.

    Args:
        given: what ``argmax`` is given: ``"scores"``, or ``"probabilities"``.
    """
    top = _as_number(source, node)
    if top is None:
        raise CannotFix("the decision is not used as a number there")
    if "given" in args:
        scores = operand_of(source, node)
        if scores is None or not isinstance(node, ast.Call):
            raise CannotFix("what is decided between is not written in the call")
        axis = keyword(node, "dim") or next(a for a in node.args if a is not scores)
        shares = "{s}.softmax({axis})" if args["given"] == "scores" else "{s}"
        second = ".narrow({axis}, 1, 1)" if is_constant(keyword(node, "keepdim"), True) else ".select({axis}, 1)"
        return [write(source, top, shares + second, s=scores, axis=axis)]
    probability, above = _compared(node)
    return [write(source, top, "{p}" if above else "1 - {p}", p=probability)]


def _compared(node: ast.expr) -> tuple[ast.expr, bool]:
    """What is compared with a number between 0 and 1, and whether the answer is yes above it."""
    over, under = _sides(node)
    if _is_threshold(under) or _is_threshold(over):
        return (over, True) if _is_threshold(under) else (under, False)
    raise CannotFix("no probability is compared with a number there")


def _is_threshold(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1


def _as_number(source: Source, node: ast.expr, *also: str) -> ast.expr | None:
    """A yes or no as a number: converted (or what is ``also`` called of it), or in arithmetic. What indexes is none."""
    above, call = source.parents.get(node), source.node_method_of(node)
    if call is not None and call.func.attr in (*_CASTS, *also):
        return call
    plain = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add | ast.Sub | ast.Mult | ast.Div)
    return node if plain else None
