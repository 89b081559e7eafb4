"""Where the source reads a gradient, ``x.grad`` or ``autograd.grad(…)``, of what, and where it keeps ``.grad``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphdoc.evidence import Event, Frame, Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import statement_at
from graphdoc.program.container_entries import FILLING
from graphdoc.program.exception import events_before_failure
from graphdoc.program.spans import innermost_user
from graphdoc.source.expressions import Use, use_of
from graphdoc.source.module import Source, each, is_method_call, parsed, walked
from graphdoc.source.paths import (
    bare_call,
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
    plain_names,
    targets_of,
    without_subscripts,
)
from graphdoc.source.scopes import iterated, own_nodes

_MODULES = ("autograd", "func", "torch")
"""``torch.autograd.grad`` is a function, not a gradient."""


def reads_gradient(sources: SourceTexts, frame: Frame | None) -> str:
    """The name ``x`` of the first ``x.grad`` that the frame's expression or line reads; empty where there is none."""
    if frame is None:
        return ""
    last = frame.end_line or frame.line
    for node in _gradients(bindings.tree(sources, frame.file)):
        if is_read(node) and node.lineno <= last and frame.line <= (node.end_lineno or 0):
            return bindings.text_of(node.value)
    return ""


def gradients_within(sources: SourceTexts, frame: Frame) -> list[tuple[Frame, str]]:
    """The expressions ``x.grad`` that are read, or added to, within the frame's own expression; with ``x``."""
    root = bindings.tree(sources, frame.file)
    added = {n.target for n in each(root, ast.AugAssign)}
    nodes = [node for node in _gradients(root) if is_read(node) or node in added]
    places = ((bindings.frame_of(sources, frame.file, n, frame.function), bindings.text_of(n.value)) for n in nodes)
    return [found for found in places if found[0].lies_in(frame)]


def _gradients(root: ast.AST | None) -> Iterator[ast.Attribute]:
    """The expressions ``x.grad`` in a piece of source."""
    for node in each(root, ast.Attribute):
        if node.attr == "grad" and bindings.text_of(node.value).rsplit(".", 1)[-1] not in _MODULES:
            yield node


def bare_read(sources: SourceTexts, at: Frame | None, stack: list[Frame]) -> tuple[Frame, str, str] | None:
    """Where a gradient that is read without its graph, ``g = p.grad.data``, goes on towards a call.

    Returns:
        The statement on the way to the call (of which this is the stack) that reads the name; the name, and the
        gradient (``p.grad``). Where the call stands in no statement that reads it: the place of ``p.grad.data`` itself,
        an empty name, and that expression. None where the gradient is read with its graph.
    """
    if at is None:
        return None
    for node in each(bindings.tree(sources, at.file), ast.Assign):
        value, bare = node.value, detached(node.value)
        if len(node.targets) != 1 or node.lineno != at.line or not is_attribute(bare, "grad"):
            continue
        name, gradient = bindings.text_of(node.targets[0]), bindings.text_of(bare)
        for frame in reversed(stack):
            if frame.in_function_of(at) and frame.line > at.line:
                call = bindings.call_at(sources, frame)
                if call is not None and any(is_name(a, name) for a in call.args):
                    return frame, name, gradient
        return bindings.frame_of(sources, at.file, value, at.function), "", bindings.text_of(value)
    return None


def gradients_are_read(sources: Mapping[str, str]) -> bool:
    """Whether the program reads a gradient itself, so that more than its optimizers may use one."""
    trees = [parsed(text) for text in sources.values()]
    by_name = (c for tree in trees for c in each(tree, ast.Call) if is_name(c.func, "getattr") and len(c.args) > 1)
    read = (n for tree in trees for n in _gradients(tree))
    return any(is_read(n) for n in read) or any(is_constant(c.args[1], "grad") for c in by_name)


def gradient_is_read(sources: Mapping[str, str], name: str) -> bool:
    """Whether the program reads the gradient of ``name``, or of what a loop gives one name after the other."""
    for tree in map(parsed, sources.values()):
        loops = [(n.target, n.iter) for n in each(tree, ast.For, ast.comprehension)]
        for node in _gradients(tree):
            held = without_subscripts(node.value)
            over = [iterated(*loop, held.id) for loop in loops] if isinstance(held, ast.Name) else []
            every = [held, *(e for one in over if one is not None for e in each(one, ast.Name, ast.Attribute))]
            if is_read(node) and any(bindings.text_of(e) == name for e in every):
                return True
    return False


_SWITCHES = ("no_grad", "zero_grad", "enable_grad", "set_grad_enabled", "requires_grad_", "retain_grad")


def gradients_between(sources: SourceTexts, backward: Frame, clear: Frame) -> bool:
    """Whether a function whose name speaks of gradients, ``clip_grad_norm_``, is called below the one call and above
    the other; in the whole function where the second stands above the first, or in another function."""
    scope = bindings.scope_at(sources, backward)
    together = backward.function == clear.function and backward.line < clear.line
    last = clear.line if together else 1 << 62
    first = backward.line if together else 0
    calls = (n for n in each(scope, ast.Call) if first < n.lineno < last)
    names = (bindings.dotted(n.func).lower() for n in calls)
    return any("grad" in name and not name.endswith(_SWITCHES) for name in names)


def gradients_are_given(sources: Mapping[str, str], in_place: bool = False) -> bool:
    """Whether the program puts gradients of its own in the place of those that backward gives: ``p.grad = g``,
    ``p.grad.copy_(g)``, not ``p.grad = None``; ``in_place``: only the second, by which it stays the same tensor."""
    for name, text in sources.items():
        source = Source(name, text)
        for node in _gradients(source.tree):
            above = source.parents.get(node)
            if isinstance(above, ast.Assign) and node in above.targets:
                if not in_place and not isinstance(above.value, ast.Constant):
                    return True
            elif use_of(source, node) is Use.GIVEN:
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
    own = [(f, v) for f, v in found.values() if {name, f"{name}.grad"} & {*bindings.names_in(v)}]
    return [(f, v) for f, v in own if not isinstance(statement_at(sources, f), ast.AugAssign)]


def first_derivative(
    sources: SourceTexts, events: list[Event], failing_call: Event | None, here: Frame
) -> Frame | None:
    """The place of the last grad call with ``create_graph`` and the same inputs, other than the failing one's."""
    wanted = _inputs(sources, here)
    for event in reversed(events_before_failure(events, failing_call)):
        frame = innermost_user(event.stack)
        if event.kind == "grad" and event.create_graph and frame is not None and frame.start != here.start:
            return frame if wanted and _inputs(sources, frame) == wanted else None
    return None


def _inputs(sources: SourceTexts, frame: Frame) -> str:
    return bindings.text_of(bindings.argument(bindings.call_at(sources, frame), 1, "inputs")).strip("[]()")


def reads_rows(sources: SourceTexts, frame: Frame | None, trained: Collection[str]) -> bool:
    """Whether the function that makes a backward call goes on to read the gradient of a tensor that it names, and that
    is none of the ``trained`` parameters: what it differentiates is no loss then, but a value for each row of that.

    A loop's variable is no such name: it stands for one parameter after the other.
    """
    scope = bindings.scope_at(sources, frame)
    if frame is None:
        return False
    loops = {name for f in each(scope, ast.For) for name in plain_names(f.target)}
    last = {name.rpartition(".")[2] for name in trained}
    behind = [bindings.dotted(n.value) for n in _gradients(scope) if is_read(n) and n.lineno > frame.line]
    return any(name and name not in loops and name.rpartition(".")[2] not in last for name in behind)


# Where the program keeps ``.grad`` itself instead of a copy, and where it reads again what it has kept.

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
    read, places = _read_next(sources, file, name, line), _kept(sources, file, name, line)
    if read is None or not places or written_through(sources, file, name, line):
        return None
    return KeptGradients(name, places, read)


def _read_in_class(sources: SourceTexts, sign: Sign, cls: str) -> KeptGradients | None:
    """What a class keeps of a gradient under an attribute or a key, ``state["last"] = grad``, and reads at the next
    call: above that line, or in a function that is called behind the backward call before it is kept again."""
    file, name = str(sign.facts["file"]), str(sign.facts["name"])
    root, source = bindings.tree(sources, file), Source(file, sources.get(file, ""))
    within = next((n for n in each(root, ast.ClassDef) if n.name == cls), None)
    uses = [n for n in each(within, ast.Subscript, ast.Attribute) if _last_text(n) == name]
    given = [pair for n in each(within, ast.Assign) for pair in pairs(n)]
    stores = [(t, v) for t, v in given if name in map(_last_text, (t, without_subscripts(t))) and _is_plain(v)]
    if within is None or not stores:
        return None
    keeping = bindings.function_around(root, stores[0][1].lineno)
    behind = _called_behind(sources, sign, within, keeping)
    reads = []
    for use in uses:
        around = bindings.function_around(root, use.lineno)
        earlier = use.lineno < stores[0][1].lineno if around is keeping else around in behind
        bound = [bindings.text_of(t) for t, v in given if v is use]
        if _writes(source, use) or any(written_through(sources, file, b, use.lineno) for b in bound):
            return None
        if earlier and is_read(use):
            reads.append(use)
    if not reads:
        return None
    places = [bindings.frame_of(sources, file, v) for _, v in stores]
    return KeptGradients(bindings.text_of(stores[0][0]), places, bindings.frame_of(sources, file, reads[0]))


def _called_behind(sources: SourceTexts, sign: Sign, within: ast.ClassDef, keeping: Any) -> set[Any]:
    """The functions of a class that run between a backward call and the next call of the one that keeps."""
    methods = bindings.methods_of(within)
    reached = {name: _reached(methods, name) for name in methods}
    for frame in reversed(sign.stack):
        calls = [n for n in own_nodes(bindings.scope_at(sources, frame)) if isinstance(n, ast.Call)]
        below = [n for n in calls if n.lineno > (frame.end_line or frame.line) and isinstance(n.func, ast.Attribute)]
        for call in sorted(below, key=lambda n: (n.lineno, n.col_offset)):
            found = reached.get(last_word(call.func), set())
            if found:
                return found if keeping not in found else set()
    return set()


def _reached(methods: dict[str, Any], first: str) -> set[Any]:
    """The methods that one of them calls, and those that these call; itself too."""
    found, new = set[str](), {first}
    while new:
        found |= new
        calls = (n for name in new for n in each(methods[name], ast.Call))
        new = {last_word(n.func) for n in calls if bindings.dotted(n.func).count(".") == 1} & methods.keys() - found
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


def _is_plain(value: ast.expr) -> bool:
    """Whether a value is taken as it is: ``grad``, ``p.grad.data``, ``p.grad.detach()``."""
    return bool(bindings.dotted(detached(value) or value))


def _read_next(sources: SourceTexts, file: str, name: str, line: int) -> Frame | None:
    """Where the function around a line reads ``name`` below it, or in the next round of a loop, before binding it anew;
    None where it does not."""
    root = bindings.tree(sources, file)
    scope = bindings.scope_around(root, line)
    filled = {c.func.value for c in each(scope, ast.Call) if is_method_call(c, *FILLING)}
    uses = [n for n in each(scope, ast.Name, ast.Attribute) if bindings.text_of(n) == name and n not in filled]
    if any(n.lineno == line and is_set(n) for n in uses):
        return None  # the statement that was running gives it another value
    rounds = [n for n in each(scope, ast.For, ast.While) if covers(n, line)]
    below = [n for n in uses if n.lineno > line]
    # Below, or in the next round of a loop around. A name that is read and bound by one statement is read first.
    for some in (below, *([n for n in uses if covers(loop, n.lineno)] for loop in reversed(rounds))):
        first = min(some, key=lambda n: (n.lineno, not is_read(n), n.col_offset), default=None)
        if first is not None:
            return bindings.frame_of(sources, file, first) if is_read(first) else None
    return None


def written_through(sources: SourceTexts, file: str, name: str, line: int) -> bool:
    """Whether the function around a line, or for an attribute the file, writes in place to what it keeps under
    ``name``: then it knows that these are the parameters' own tensors, and changes them through it.

    ``for g in grads: g.zero_()``, ``for p, g in zip(params, grads): g.mul_(0.9)``, ``torch._foreach_zero_(grads)``,
    ``state[key] += 1``.
    """
    root = bindings.tree(sources, file)
    scope = (None if "." in name else bindings.function_around(root, line)) or root
    elements: set[str] = set()
    for loop in each(scope, ast.For):
        for own in each(loop.target, ast.Name):
            over = iterated(loop.target, loop.iter, own.id) or loop.iter
            elements.update({own.id} if any(bindings.text_of(n) == name for n in walked(over)) else ())
    written: list[tuple[ast.expr, str]] = [(n.target, "") for n in each(scope, ast.AugAssign)]
    for call in each(scope, ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and is_in_place(function.attr):
            written.append((function.value, bindings.text_of(call.args[0]) if call.args else ""))
    return any(
        bindings.text_of(held) in elements or name in (bindings.text_of(without_subscripts(held)), first)
        for held, first in written
    )


def _kept(sources: SourceTexts, file: str, name: str, line: int) -> list[Frame]:
    """The expressions that keep a ``.grad`` without a copy: in the function around a line, those under ``name`` first;
    where there are none, those that a function of the program returns."""
    scope = bindings.scope_around(bindings.tree(sources, file), line)
    own_ones = list(own_nodes(scope))
    given = [n for n in own_ones if isinstance(n, ast.Assign) and _has_names(n)]
    named = [n for n in own_ones if isinstance(n, ast.stmt) and _puts_under(n, name)]
    same = {bindings.text_of(n.value) for n in named if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)}
    named += [n for n in given if same.intersection(bindings.text_of(t) for t in n.targets)]  # previous = grads
    if any(_uncopied(n) for n in named):
        own = [e for n in (*named, *(n for n in given if n not in named)) for e in _uncopied(n)]
        return [bindings.frame_of(sources, file, e) for e in own]
    returned = ((other, e) for other, n in bindings.everywhere(sources, ast.Return) for e in _uncopied(n))
    return [bindings.frame_of(sources, other, e) for other, e in returned]


def _puts_under(statement: ast.stmt, name: str) -> bool:
    """Whether a statement keeps something under ``name``: ``kept = …``, ``kept[i] = …``, ``kept.append(…)``."""
    call = bare_call(statement)
    if is_method_call(call, *FILLING):
        return bindings.text_of(call.func.value) == name
    targets = targets_of(statement) if isinstance(statement, ast.Assign | ast.AugAssign) else []
    return name in {bindings.text_of(n) for t in targets for n in (t, without_subscripts(t))}


def _has_names(node: ast.Assign) -> bool:
    return all(isinstance(t, ast.Name) or (isinstance(t, ast.Attribute) and t.attr != "grad") for t in node.targets)


def _uncopied(statement: ast.stmt) -> list[ast.expr]:
    """The ``….grad`` (with ``.data`` or ``.detach()`` behind it) that a statement keeps in what it makes."""
    parents = {child: node for node in walked(statement) for child in ast.iter_child_nodes(node)}
    found: list[ast.expr] = []
    for node in each(statement, ast.Attribute):
        if node.attr != "grad" or not is_read(node):
            continue
        whole: ast.expr = node
        while True:
            above = parents.get(whole)
            if is_attribute(above, "data"):
                whole = above
            elif isinstance(above, ast.Attribute) and (above.attr == "detach" or is_in_place(above.attr)):
                call = parents[above]  # what is written in place is itself
                if not isinstance(call, ast.Call):
                    break
                whole = call
            else:
                break
        value: ast.AST = whole
        while isinstance(above, ast.IfExp) and above.test is not value:  # p.grad if p.grad is not None else zeros
            value, above = above, parents.get(above)
        # Of an assignment only an entry or a container is kept: a single name is read and gone.
        if isinstance(above, ast.Assign):
            kept = any(isinstance(t, ast.Subscript) for t in above.targets)
        else:
            kept = isinstance(above, _KEEPING) or is_method_call(above, *FILLING)
        found += [whole] if kept else []
    return found
