"""Where the source reads a gradient, ``x.grad`` or ``autograd.grad(…)``, of what, and where it keeps ``.grad``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from graphdoc.evidence import Event, Frame, Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import statement_at
from graphdoc.program.container_entries import FILLING
from graphdoc.program.exception import events_before_failure
from graphdoc.program.parameter_paths import within
from graphdoc.program.spans import innermost_user
from graphdoc.program.tracker import all_meant
from graphdoc.program.written_out import in_line, in_one_piece, written_out
from graphdoc.source.expressions import Use, use_of
from graphdoc.source.module import Function, Loop, Source, each, is_method_call, parsed, walked
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    detached,
    is_attribute,
    is_constant,
    is_in_place,
    is_name,
    is_read,
    is_set,
    last_word,
    pairs,
    path_of,
    plain_names,
    sole_target,
    targets_of,
    with_containers,
    without_subscripts,
)
from graphdoc.source.scopes import bound_names, iterated, own_nodes


def reads_gradient(sources: SourceTexts, frame: Frame | None) -> str:
    """The name ``x`` of the first ``x.grad`` that the frame's expression or line reads; empty where there is none."""
    first, last = (frame.line, frame.end_line or frame.line) if frame is not None else (0, 0)
    read = (n for n in gradients_in(bindings.tree_at(sources, frame)) if is_read(n) and n.lineno <= last)
    return next((bindings.text_of(n.value) for n in read if first <= (n.end_lineno or 0)), "")


def gradients_within(sources: SourceTexts, frame: Frame) -> list[tuple[Frame, str]]:
    """The expressions ``x.grad`` that are read, or added to, within the frame's own expression; with ``x``."""
    root = bindings.tree(sources, frame.file)
    added = {n.target for n in each(root, ast.AugAssign)}
    nodes = [node for node in gradients_in(root) if is_read(node) or node in added]
    places = ((bindings.frame_of(sources, frame, n), bindings.text_of(n.value)) for n in nodes)
    return [found for found in places if found[0].lies_in(frame)]


def gradients_in(root: ast.AST | None) -> Iterator[ast.Attribute]:
    """The expressions ``x.grad`` in a piece of source; what is called so is a function: ``torch.autograd.grad``."""
    functions = {n.func for n in each(root, ast.Call)}
    yield from (n for n in each(root, ast.Attribute) if n.attr == "grad" and n not in functions)


def bare_read(sources: SourceTexts, at: Frame | None, stack: list[Frame]) -> tuple[Frame, str, str] | None:
    """Where a gradient that is read without its graph, ``g = p.grad.data``, goes on towards a call.

    Returns:
        The statement on the way to the call (of which this is the stack) that reads the name; the name, and the
        gradient (``p.grad``). Where the call stands in no statement that reads it: the place of ``p.grad.data`` itself,
        an empty name, and that expression. None where the gradient is read with its graph.
    """
    if at is None:
        return None
    assigned = (n for n in each(bindings.tree(sources, at.file), ast.Assign) if n.lineno == at.line)
    node = next((n for n in assigned if sole_target(n) and is_attribute(detached(n.value), "grad")), None)
    if node is None:
        return None
    name, gradient = bindings.text_of(node.targets[0]), bindings.text_of(detached(node.value))
    below = (f for f in reversed(stack) if f.in_function_of(at) and f.line > at.line)
    calls = ((f, bindings.call_at(sources, f)) for f in below)
    taking = next((f for f, call in calls if call and any(is_name(a, name) for a in call.args)), None)
    bare = bindings.frame_of(sources, at, node.value), "", bindings.text_of(node.value)
    return bare if taking is None else (taking, name, gradient)


def gradients_are_read(sources: Mapping[str, str]) -> bool:
    """Whether the program reads a gradient itself, so that more than its optimizers may use one."""
    trees = [parsed(text) for text in sources.values()]
    by_name = (c for tree in trees for c in each(tree, ast.Call) if is_name(c.func, "getattr") and len(c.args) > 1)
    read = (n for tree in trees for n in gradients_in(tree))
    return any(is_read(n) for n in read) or any(is_constant(c.args[1], "grad") for c in by_name)


def gradient_is_read(sources: Mapping[str, str], name: str) -> bool:
    """Whether the program reads the gradient of ``name``, or of what may stand for it or its entries."""
    owners = [(file, n.value) for file in sources for n in gradients_in(bindings.tree(sources, file)) if is_read(n)]
    meant = (m for file, owner in owners for m in all_meant(sources, file, owner))
    return any(name in bindings.names_in(m) for m in meant)


_SWITCHES = ("no_grad", "zero_grad", "enable_grad", "set_grad_enabled", "requires_grad_", "retain_grad")


def gradients_between(sources: SourceTexts, backward: Frame, clear: Frame) -> bool:
    """Whether a function whose name speaks of gradients, ``clip_grad_norm_``, is called below the one call and above
    the other; in the whole function where the second stands above the first, or in another function."""
    together = backward.function == clear.function and backward.line < clear.line
    calls = each(bindings.scope_at(sources, backward), ast.Call)
    between = (n for n in calls if not together or backward.line < n.lineno < clear.line)
    names = (path_of(n.func).lower() for n in between)
    return any("grad" in name and not name.endswith(_SWITCHES) for name in names)


def gradients_are_given(sources: Mapping[str, str], in_place: bool = False) -> bool:
    """Whether the program puts gradients of its own in the place of those that backward gives: ``p.grad = g``,
    ``p.grad.copy_(g)``, not ``p.grad = None``; ``in_place``: only the second, by which it stays the same tensor."""
    for name, text in sources.items():
        source = Source(name, text)
        for node in gradients_in(source.tree):
            above = source.parents.get(node)
            anew = isinstance(above, ast.Assign) and node in above.targets
            constant = isinstance(getattr(above, "value", None), ast.Constant)
            if (not in_place and not constant) if anew else use_of(source, node) is Use.GIVEN:
                return True
    return False


def rebound(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the name is bound again to something computed from itself: ``w = w - lr * w.grad``."""
    return bool(updates_of_itself(sources, frame, name))


def updates_of_itself(sources: SourceTexts, frame: Frame, name: str) -> list[tuple[Frame, ast.expr]]:
    """The assignments to a name of something computed from it or its gradient, up to the frame and at it. An augmented
    one (``w -= lr * w.grad``) writes into the tensor that the name has.
    """
    behind = replace(frame, line=(frame.end_line or frame.line) + 1)
    found = {f.line: (f, v) for at in (frame, behind) for f, v in bindings.assignments(sources, at, name)}
    whole = [(f, written_out(sources, f, v)) for f, v in found.values()]
    own = [(f, v) for f, v in whole if {name, f"{name}.grad"} & {*bindings.names_in(v)}]
    return [(f, v) for f, v in own if not isinstance(statement_at(sources, f), ast.AugAssign)]


def first_derivative(
    sources: SourceTexts, events: list[Event], failing_call: Event | None, here: Frame
) -> Frame | None:
    """The place of the last grad call with ``create_graph`` and the same inputs, other than the failing one's."""
    wanted = _inputs(sources, here)
    before = reversed(events_before_failure(events, failing_call))
    places = (innermost_user(e.stack) for e in before if e.kind == "grad" and e.create_graph)
    frame = next((f for f in places if f is not None and f.start != here.start), None)
    return frame if frame is not None and wanted and _inputs(sources, frame) == wanted else None


def _inputs(sources: SourceTexts, frame: Frame) -> str:
    return bindings.text_of(bindings.argument(bindings.call_at(sources, frame), 1, "inputs")).strip("[]()")


def reads_rows(sources: SourceTexts, frame: Frame | None, trained: Collection[str]) -> bool:
    """Whether the function that makes a backward call goes on to read the gradient of a tensor that it names, and that
    is none of the ``trained`` parameters: what it differentiates is no loss then, but a value for each row of that.

    A loop's variable is no such name: it stands for one parameter after the other.
    """
    scope = bindings.scope_at(sources, frame)
    loops = {name for f in each(scope, ast.For) for name in plain_names(f.target)}
    read = (n for n in gradients_in(scope) if is_read(n) and frame is not None and n.lineno > frame.line)
    behind = map(path_of, (n.value for n in read))
    return any(name and name not in loops and "" not in within(name, trained).values() for name in behind)


# Where the program keeps ``.grad`` itself instead of a copy, and where it reads again what it has kept.

_RENEWING = frozenset({"clear", "update"})
"""Methods behind which a container holds other gradients."""
_KEEPING = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.Dict, ast.DictComp, ast.Return)


@dataclass(frozen=True)
class KeptGradients:
    """Gradients that the program keeps under a name, without a copy: where it does, and where it reads them again."""

    name: str
    places: list[Frame]
    read: Frame


def read_on(sources: SourceTexts, sign: Sign) -> KeptGradients | None:
    """What a backward call has added to, if the program reads it afterwards and never writes through it."""
    file, name, line = str(sign.facts["file"]), str(sign.facts["name"]), int(sign.facts["line"])
    if "class" in sign.facts:
        return _read_in_class(sources, sign, str(sign.facts["class"]))
    entry = str(sign.facts.get("entry", ""))
    if any(bindings.text_of(n) == entry for n in each(bindings.tree(sources, file), ast.Subscript)):
        name = entry
    read, places = _read_next(sources, sign.stack, file, name, line), _kept(sources, file, name, line)
    if read is None or not places or written_through(sources, file, name, line):
        return None
    return KeptGradients(name, places, read)


def _read_in_class(sources: SourceTexts, sign: Sign, cls: str) -> KeptGradients | None:
    """What a class keeps of a gradient under an attribute or a key, ``state["last"] = grad``, and reads at the next
    call: above that line, or in a function that is called behind the backward call before it is kept again."""
    file, name = str(sign.facts["file"]), str(sign.facts["name"])
    root, source = bindings.tree(sources, file), bindings.source_of(sources, file)
    within = next((n for n in each(root, ast.ClassDef) if n.name == cls), None)
    uses = [n for n in each(within, ast.Subscript, ast.Attribute) if _last_text(n) == name]
    given = [pair for n in each(within, ast.Assign) for pair in pairs(n)]
    # Taken as it is: ``grad``, ``p.grad.data``, ``p.grad.detach()``.
    plain = ((t, v) for t, v in given if path_of(detached(v) or v))
    stores = [(t, v) for t, v in plain if name in map(_last_text, (t, without_subscripts(t)))]
    bound = [(use, bindings.text_of(t)) for t, v in given for use in uses if v is use]
    written = any(_writes(source, use) for use in uses)
    if within is None or not stores or written or any(written_through(sources, file, b, n.lineno) for n, b in bound):
        return None
    keeping = bindings.function_around(root, stores[0][1].lineno)
    behind = _called_behind(sources, sign, within, keeping)
    around = ((use, bindings.function_around(root, use.lineno)) for use in uses if is_read(use))
    first = stores[0][1].lineno
    reads = [use for use, at in around if (use.lineno < first if at is keeping else at in behind)]
    places = [bindings.frame_of(sources, file, v) for _, v in stores]
    read = [bindings.frame_of(sources, file, use) for use in reads[:1]]
    return KeptGradients(bindings.text_of(stores[0][0]), places, *read) if read else None


def _called_behind(sources: SourceTexts, sign: Sign, within: ast.ClassDef, keeping: Any) -> set[Any]:
    """The functions of a class that run between a backward call and the next call of the one that keeps."""
    methods = bindings.methods_of(within)
    for frame in reversed(sign.stack):
        calls = [n for n in own_nodes(bindings.scope_at(sources, frame)) if is_method_call(n, *methods)]
        below = [n for n in calls if n.lineno > (frame.end_line or frame.line)]
        if below and methods:
            found = _reached(methods, called(min(below, key=lambda n: (n.lineno, n.col_offset))))
            return found if keeping not in found else set()
    return set()


def _reached(methods: dict[str, Any], first: str) -> set[Any]:
    """The methods that one of them calls, and those that these call; itself too."""
    found, new = set[str](), {first}
    while new:
        found |= new
        calls = (n for name in new for n in each(methods[name], ast.Call))
        new = {called(n) for n in calls if path_of(n.func).count(".") == 1} & methods.keys() - found
    return {methods[name] for name in found}


def _writes(source: Source, node: ast.expr) -> bool:
    """Whether this, or an entry of it, is written in place."""
    above = source.parents.get(node)
    while isinstance(above, ast.Subscript) and above.value is node:
        node, above = above, source.parents.get(above)
    in_place = isinstance(above, ast.Attribute) and is_in_place(above.attr)
    return in_place or (isinstance(above, ast.AugAssign) and above.target is node)


def _last_text(node: ast.expr) -> str:
    """The attribute of ``self``, or the text in brackets, by which something is reached; empty for all else."""
    index = node.slice if isinstance(node, ast.Subscript) else None
    text = index.value if isinstance(index, ast.Constant) else ""
    own = isinstance(node, ast.Attribute) and is_name(node.value, "self")
    return last_word(node) if own else text if isinstance(text, str) else ""


def _read_next(sources: SourceTexts, stack: list[Frame], file: str, name: str, line: int) -> Frame | None:
    """Where the program reads ``name`` behind a call, or in the next round of a loop, before binding it anew; None
    where it does not. ``line`` is the one that runs in the function of the name; a name of the module is looked for in
    the functions that it has called as well."""
    root, parents = bindings.tree(sources, file), bindings.source_of(sources, file).parents
    holder = bindings.scope_around(root, line)
    inside = [f for f in reversed(stack) if f.user and f.file == file] if holder is root else []
    levels = [(bindings.scope_at(sources, f), f.line) for f in inside] or [(holder, line)]
    levels = [(scope, at) for scope, at in levels if scope in (root, holder) or scope in _functions_with(root, name)]
    for scope, at in levels:
        uses = _uses(root, scope, name)
        if any(n.lineno == at and is_set(n) for _, n in uses):
            return None  # by the statement that was running
        rounds = [n for n in own_nodes(scope) if isinstance(n, Loop) and covers(n, at)]
        # Below, or in the next round of a loop around. A name that is read and bound by one statement is read first.
        every = ([u for u in uses if u[0] > at], *([u for u in uses if covers(r, u[0])] for r in reversed(rounds)))
        found = next(filter(None, every), [])
        first = min(found, key=lambda u: (u[0], u[1].lineno, not is_read(u[1]), u[1].col_offset), default=None)
        if first is not None:
            renewed = not is_read(first[1]) or is_attribute(parents.get(first[1]), *_RENEWING)
            return bindings.frame_of(sources, file, first[1]) if not renewed else None
    return None


def _uses(root: ast.Module, scope: Function | ast.Module, name: str) -> list[tuple[int, ast.expr]]:
    """Where a scope reads or binds ``name``, by the line; for a name of the module also what the functions do with it,
    where they are called. What is only filled is not read."""
    if scope is not root:
        return [(n.lineno, n) for n in _named(root, walked(scope), name)]
    own = own_nodes(root)
    found = [(n.lineno, n) for n in _named(root, own, name)]
    within = {f.name: _named(root, walked(f), name) for f in _functions_with(root, name)}
    calls = [n for n in own if isinstance(n, ast.Call)]
    return found + [(c.lineno, n) for c in calls for n in within.get(called(c), ())]


def _named(root: ast.Module, nodes: Sequence[ast.AST], name: str) -> list[ast.expr]:
    """The nodes that are ``name``, without those by which it is filled."""
    calls = [in_line(root, n) for n in nodes if isinstance(n, ast.Call)]
    owners = [c.func.value for c in calls if is_method_call(c, *FILLING - _RENEWING)]
    filled = {(n.lineno, n.col_offset) for n in owners}
    paths = [n for n in nodes if isinstance(n, ast.Name | ast.Attribute | ast.Subscript)]
    return [n for n in paths if bindings.text_of(n) == name and (n.lineno, n.col_offset) not in filled]


def _functions_with(root: ast.Module, name: str) -> list[Function]:
    """The functions in which ``name`` is that of the module."""
    first = name.partition(".")[0].partition("[")[0]
    return [n for n in each(root, ast.FunctionDef, ast.AsyncFunctionDef) if first not in bound_names(n)]


def written_through(sources: SourceTexts, file: str, name: str, line: int) -> bool:
    """Whether the function around a line, or for an attribute the file, writes in place to what it keeps under
    ``name``: then it knows that these are the parameters' own tensors, and changes them through it.

    ``for g in grads: g.zero_()``, ``for p, g in zip(params, grads): g.mul_(0.9)``, ``torch._foreach_zero_(grads)``,
    ``state[key] += 1``.
    """
    root = in_one_piece(bindings.tree(sources, file))
    scope = (None if "." in name else bindings.function_around(root, line)) or root
    own = ((loop, bindings.text_of(t)) for loop in each(scope, ast.For) for t in targets_of(loop))
    over = ((n, iterated(loop.target, loop.iter, n) or loop.iter) for loop, n in own)
    entries = {n for n, of in over if any(bindings.text_of(e) == name for e in walked(of))}
    calls = [c for c in each(scope, ast.Call) if is_method_call(c) and is_in_place(c.func.attr)]
    held = [*(n.target for n in each(scope, ast.AugAssign)), *(c.func.value for c in calls)]
    given = {bindings.text_of(a) for c in calls for a in c.args[:1]}
    whole = {bindings.text_of(n) for h in held for n in with_containers(h)}
    return name in whole | given or any(bindings.text_of(h) in entries for h in held)


def _kept(sources: SourceTexts, file: str, name: str, line: int) -> list[Frame]:
    """The expressions that keep a ``.grad`` without a copy: in the function around a line, those under ``name`` first;
    where there are none, those that a function of the program returns. What has the name of the module may be kept in
    any function."""
    root = bindings.tree(sources, file)
    holder = bindings.scope_around(root, line)
    for scope in (holder, *(_functions_with(root, name) if holder is root else ())):
        at = bindings.frame_of(sources, file, scope) if scope is not root else Frame(file, line)
        own_ones = [_in_one_piece(sources, at, n) for n in own_nodes(scope) if isinstance(n, ast.stmt)]
        given = [n for n in own_ones if isinstance(n, ast.Assign) and _has_names(n)]
        named = [n for n in own_ones if _puts_under(n, name)]
        same = {bindings.text_of(n.value) for n in named if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)}
        named += [n for n in given if same.intersection(bindings.text_of(t) for t in n.targets)]  # previous = grads
        if any(_uncopied(n) for n in named):
            own = [e for n in (*named, *(n for n in given if n not in named)) for e in _uncopied(n)]
            return list({f.extent: f for f in (bindings.frame_of(sources, file, e) for e in own)}.values())
    returned = ((other, e) for other, n in bindings.everywhere(sources, ast.Return) for e in _uncopied(n))
    return [bindings.frame_of(sources, other, e) for other, e in returned]


def _in_one_piece(sources: SourceTexts, at: Frame, statement: ast.stmt) -> ast.stmt:
    """A statement that keeps something, with its value written out."""
    if not isinstance(statement, ast.Assign | ast.Expr):
        return statement
    whole = copy(statement)
    whole.value = written_out(sources, at, statement.value)
    return whole


def _puts_under(statement: ast.stmt, name: str) -> bool:
    """Whether a statement keeps something under ``name``: ``kept = …``, ``kept[i] = …``, ``kept.append(…)``."""
    call = bare_call(statement)
    if is_method_call(call, *FILLING):
        return bindings.text_of(call.func.value) == name
    targets = targets_of(statement) if isinstance(statement, ast.Assign | ast.AugAssign) else []
    return name in {bindings.text_of(n) for t in targets for n in with_containers(t)}


def _has_names(node: ast.Assign) -> bool:
    return all(isinstance(t, ast.Name) or (isinstance(t, ast.Attribute) and t.attr != "grad") for t in node.targets)


def _uncopied(statement: ast.stmt) -> list[ast.expr]:
    """The ``….grad`` (with ``.data`` or ``.detach()`` behind it) that a statement keeps in what it makes."""
    parents = {child: node for node in walked(statement) for child in ast.iter_child_nodes(node)}
    found: list[ast.expr] = []
    for node in (n for n in each(statement, ast.Attribute) if n.attr == "grad" and is_read(n)):
        whole: ast.expr = node
        above = parents.get(whole)
        # What is written in place is itself.
        while isinstance(above, ast.Attribute) and (above.attr in ("data", "detach") or is_in_place(above.attr)):
            call = parents.get(above)
            if above.attr != "data" and not isinstance(call, ast.Call):
                break
            whole = call if isinstance(call, ast.Call) and above.attr != "data" else above
            above = parents.get(whole)
        value: ast.AST = whole
        while isinstance(above, ast.IfExp) and above.test is not value:  # p.grad if p.grad is not None else zeros
            value, above = above, parents.get(above)
        # Of an assignment only an entry or a container is kept: a single name is read and gone.
        entry = isinstance(above, ast.Assign) and any(isinstance(t, ast.Subscript) for t in above.targets)
        found += [whole] if entry or isinstance(above, _KEEPING) or is_method_call(above, *FILLING) else []
    return found
