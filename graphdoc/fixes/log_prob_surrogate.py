"""Put the log-probability of a draw into the loss: ``-reward.mean()`` → ``-(dist.log_prob(action) * reward).mean()``.

The gradient of what it gives is the score-function estimate of the gradient of the expected loss (torch.distributions,
"Score function"). Draws that a loop makes before the loss have their log-probabilities collected and stacked.

Args:
    place: the call of ``sample``, whose result a name keeps.
    loss: the call of ``backward``, in the same function.
    summed: True where the log-probability has one dimension more than the loss's terms, to be summed.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import copied, insert_after, insert_before, write, written
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, name_for, own_nodes, scope_of

KIND = "log_prob_surrogate"

_REDUCTIONS = ("mean", "sum")


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, draw = call(sources, required(args, "place"))
    if not isinstance(draw.func, ast.Attribute) or draw.func.attr != "sample":
        raise CannotFix("no sample is drawn there")
    kept = source.node_owner(draw)
    if not isinstance(kept, ast.Assign) or kept.value is not draw or not _is_name(kept.targets):
        raise CannotFix("the draw is not kept under a name of its own")
    sample = source.segment(kept.targets[0])
    there, backward = call(sources, required(args, "loss"))
    if there is not source or scope_of(source, backward) is not scope_of(source, draw):
        raise CannotFix("the draw and the loss stand in different functions")
    loss = _loss(source, backward)
    terms = _terms(loss)
    if any(_acts(value, sample) for value in _values(source, terms, loss)):
        raise CannotFix(f"the loss counts with {sample} itself")
    edits: list[Edit] = []
    distribution = source.segment(draw.func.value)
    if not is_path(draw.func.value):
        named = fresh_name(source, "dist", "distribution")
        made = written(source, f"{named} = {{made}}", made=copied(source, draw.func.value))
        edits += insert_before(source, kept, [made])
        edits.append(write(source, draw.func.value, named))
        distribution = named
    weight = f"{distribution}.log_prob({sample})" + (".sum(-1)" if args.get("summed") else "")
    around, loop = source.node_loop(loss), source.node_loop(draw)
    if loop is not None and loop is not around and loop not in source.node_ancestors(loss):
        if source.node_loop(loop) is not around or loop.lineno > loss.lineno:
            raise CannotFix("the draws are not made in one loop right before the loss")
        name = fresh_name(source, "log_probs", "log_probabilities")
        stack = name_for(source, "torch.stack", loss, "import torch")
        edits += insert_before(source, loop, [f"{name} = []"])
        edits += insert_after(source, kept, [f"{name}.append({weight})"])
        edits += stack.edits
        weight = f"{stack.text}({name})"
    elif kept.lineno > loss.lineno:
        raise CannotFix("the loss is computed before the draw")
    return [*edits, write(source, terms, "{weight} * {terms}", weight=weight, terms=terms)]


def _is_name(targets: list[ast.expr]) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name)


def _loss(source: Source, backward: ast.Call) -> ast.expr:
    """The expression that backward is called on, or that its name was last given."""
    if not isinstance(backward.func, ast.Attribute) or backward.func.attr != "backward":
        raise CannotFix("backward is not called on the loss there")
    root = backward.func.value
    if not isinstance(root, ast.Name):
        return root
    scope = scope_of(source, backward)
    found = [s for s in source.node_assignments(root.id, scope) if s.lineno < backward.lineno]
    last = found[-1] if found else None
    if not isinstance(last, ast.Assign) or not _is_name(last.targets):
        raise CannotFix(f"it was not seen what {root.id} is computed from")
    return last.value


def _terms(loss: ast.expr) -> ast.expr:
    """What the loss reduces: ``x`` of ``-x.mean()``; the loss itself, without its sign, where it reduces nothing."""
    found: list[ast.expr] = []
    todo: list[ast.AST] = [loss]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCTIONS:
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "torch":
                if len(node.args) == 1 and not node.keywords:
                    found.append(node.args[0])
                    continue
            elif not node.args and not node.keywords:
                found.append(node.func.value)
                continue
        todo += ast.iter_child_nodes(node)
    if len(found) > 1:
        raise CannotFix("the loss is the sum of several")
    if found:
        return found[0]
    while isinstance(loss, ast.UnaryOp) and isinstance(loss.op, ast.USub):
        loss = loss.operand
    return loss


def _values(source: Source, terms: ast.expr, loss: ast.expr) -> list[ast.expr]:
    """The loss's terms and, of every name on their way, what it was assigned in the same function before."""
    scope = scope_of(source, loss)
    values: list[ast.expr] = [terms]
    seen: set[str] = set()
    for value in values:
        for name in {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} - seen:
            seen.add(name)
            for s in own_nodes(scope) if scope is not None else ():
                given = getattr(s, "value", None)
                binds = any(isinstance(t, ast.Name) and t.id == name for t in targets_of(s))
                if isinstance(given, ast.expr) and binds and getattr(s, "lineno", 0) <= loss.lineno:
                    values.append(given)
    return values


def _acts(value: ast.expr, sample: str) -> bool:
    """Whether an expression computes with the draw itself, beyond selecting by it or handing it to a function."""
    above = {child: node for node in ast.walk(value) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(value):
        if not isinstance(node, ast.Name) or node.id != sample:
            continue
        inner: ast.AST = node
        while inner in above:
            outer = above[inner]
            if isinstance(outer, ast.Subscript) and inner is outer.slice:
                break
            if isinstance(outer, ast.Call) and inner is not outer.func:
                break
            if isinstance(outer, ast.Compare):
                break
            if isinstance(outer, ast.BinOp):
                return True
            inner = outer
    return False
