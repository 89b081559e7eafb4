"""What a loss is made of: one number, one with a graph, the log-probability of a draw, a sum without old graphs."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, expression, kind, required, statement
from graphdoc.fixes.program_slices import assignments, made_of
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.edits import copied, insert_after, insert_before, write, written
from graphdoc.source.module import Source, each, is_method_call, walked
from graphdoc.source.paths import bare_call, is_path, plain_names, same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, is_torchs, name_for, scope_of

_CALLS = {"backward": ("tensors", "grad_tensors", 1), "grad": ("outputs", "grad_outputs", 2)}
"""For each function of ``torch.autograd``: what is differentiated, what weighs its elements, and where that stands."""


@kind("reduce_loss")
def reduce_loss(sources: Sources, args: Args) -> list[Edit]:
    """Reduce a loss to one number: ``loss.backward()`` → ``loss.mean().backward()``, ``grad(u, x)`` → ``grad(u.sum(),
    x)``.

    Args:
        place: the call of backward or of autograd.grad, or the loss expression.
        method: ``"mean"`` (default) or ``"sum"``.
    """
    source, node = expression(sources, required(args, "place"))
    method = str(args.get("method", "mean"))
    edits: list[Edit] = []
    for part in _differentiated_by(node):
        edits += convert_expression(source, part, "tensor", method)
    return edits


def _differentiated_by(node: ast.expr) -> list[ast.expr]:
    """What a call differentiates; the expression itself where it is no such call."""
    if not isinstance(node, ast.Call):
        return [node]
    path = ast.unparse(node.func).split(".")
    if path[-1] == "backward" and is_method_call(node) and path[-2:-1] != ["autograd"]:
        if node.args or any(k.arg == "gradient" for k in node.keywords):
            raise CannotFix("backward is given a gradient for each element")
        return [node.func.value]
    if path[-1] not in _CALLS or (len(path) > 1 and path[-2] != "autograd"):
        return [node]
    name, weights, position = _CALLS[path[-1]]
    if len(node.args) > position or any(k.arg in (weights, None) for k in node.keywords):
        raise CannotFix("the call weighs the elements itself")
    given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == name), None)
    if given is None or isinstance(given, ast.Starred):
        raise CannotFix("what is differentiated is not written at this call")
    return given.elts if isinstance(given, ast.List | ast.Tuple) else [given]


_REDUCTIONS = ("mean", "sum")


@kind("log_prob_surrogate")
def log_prob_surrogate(sources: Sources, args: Args) -> list[Edit]:
    """Put the log-probability of a draw into the loss: ``-reward.mean()`` → ``-(dist.log_prob(action) *
    reward).mean()``.

    The gradient of what it gives is the score-function estimate of the gradient of the expected loss
    (torch.distributions, "Score function"). Draws that a loop makes before the loss have their log-probabilities
    collected and stacked.

    Args:
        place: the call of ``sample``, whose result a name keeps.
        loss: the call of ``backward``, in the same function.
        summed: True where the log-probability has one dimension more than the loss's terms, to be summed.
    """
    source, draw = call(sources, required(args, "place"))
    if not is_method_call(draw, "sample"):
        raise CannotFix("no sample is drawn there")
    kept = source.node_owner(draw)
    if not isinstance(kept, ast.Assign) or kept.value is not draw or not _is_name(kept.targets):
        raise CannotFix("the draw is not kept under a name of its own")
    sample = source.segment(kept.targets[0])
    there, backward = call(sources, required(args, "loss"))
    if there is not source or scope_of(source, backward) is not scope_of(source, draw):
        raise CannotFix("the draw and the loss stand in different functions")
    loss = _loss(source, backward)
    terms = _terms(source, loss)
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
    if not is_method_call(backward, "backward"):
        raise CannotFix("backward is not called on the loss there")
    root = backward.func.value
    if not isinstance(root, ast.Name):
        return root
    found = made_of([s for s in assignments(source, backward) if s.lineno < backward.lineno], {root.id})
    last = found[-1] if found else None
    if not isinstance(last, ast.Assign) or not _is_name(last.targets):
        raise CannotFix(f"it was not seen what {root.id} is computed from")
    return last.value


def _terms(source: Source, loss: ast.expr) -> ast.expr:
    """What the loss reduces: ``x`` of ``-x.mean()``; the loss itself, without its sign, where it reduces nothing."""
    found: list[ast.expr] = []
    todo: list[ast.AST] = [loss]
    while todo:
        node = todo.pop()
        if is_method_call(node) and node.func.attr in _REDUCTIONS:
            if is_torchs(source, node.func.value):
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
    before = [s for s in assignments(source, loss) if s.lineno < loss.lineno]
    given = (s.value for s in made_of(before, plain_names(terms)))
    return [terms, *(v for v in given if v is not None)]


def _acts(value: ast.expr, sample: str) -> bool:
    """Whether an expression computes with the draw itself, beyond selecting by it or handing it to a function."""
    above = {child: node for node in walked(value) for child in ast.iter_child_nodes(node)}
    for node in each(value, ast.Name):
        if node.id != sample:
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


@kind("accumulate_number")
def accumulate_number(sources: Sources, args: Args) -> list[Edit]:
    """Accumulate a tensor without graph instead of the graph of every iteration.

    ``total += loss`` → ``total += loss.detach()``, ``total = total + loss`` and ``losses.append(loss)`` likewise.

    Args:
        place: the accumulating statement, or an expression in it.
        plain: True where an argument of the function is added, which may be given numbers as well:
            ``total += value`` → ``total += float(value)``.
        backward: optional; the ``total.backward()`` call that is to run on this iteration's loss instead. An added
            expression gets a name of its own before the statement.
    """
    source, node = statement(sources, required(args, "place"))
    addend = _addend(node)
    if addend is None:
        raise CannotFix("nothing is accumulated there")
    if isinstance(addend, ast.Constant):
        raise CannotFix("what is added is a number already")
    if args.get("plain"):
        function = source.node_function(node)
        given = {a.arg for a in each(function.args, ast.arg)} - {"self"} if function is not None else set()
        if not given & plain_names(addend):
            raise CannotFix("no argument of the function is added")
        return [write(source, addend, "float({value})", value=addend)]
    if args.get("backward") is None:
        return convert_expression(source, addend, "tensor", "detach")
    other, backward = call(sources, args["backward"])
    if other is not source or not is_method_call(backward, "backward"):
        raise CannotFix("the backward call to change was not found")
    differentiated = _differentiated(backward, backward.func.value, node)
    if is_path(addend):
        name = source.segment(addend)
        return [*convert_expression(source, addend, "tensor", "detach"), write(source, differentiated, name)]
    name = fresh_name(source, "loss", "step_loss")
    return [
        *insert_before(source, node, [written(source, f"{name} = {{loss}}", loss=copied(source, addend))]),
        write(source, addend, f"{name}.detach()"),
        write(source, differentiated, name),
    ]


def _differentiated(backward: ast.Call, owner: ast.expr, accumulating: ast.stmt) -> ast.expr:
    """What the call differentiates: its owner, or its first argument (``accelerator.backward(total)``)."""
    targets = accumulating.targets if isinstance(accumulating, ast.Assign) else [getattr(accumulating, "target", owner)]
    own = any(same(part, target) for part in each(owner, ast.expr) for target in targets)
    return owner if own or not backward.args else backward.args[0]


def _addend(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.AugAssign):
        return node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
        left, right = node.value.left, node.value.right
        if same(left, node.targets[0]):
            return right
        return left if same(right, node.targets[0]) else None
    value = bare_call(node)
    if is_method_call(value) and len(value.args) == 1:
        return value.args[0] if value.func.attr in ("append", "appendleft", "add") else None
    return None
