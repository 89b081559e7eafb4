"""Where the source reads a gradient, ``x.grad`` or ``autograd.grad(…)``, and of what."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.exception import events_before_failure
from graphdoc.program.spans import innermost_user
from graphdoc.source.gradient_uses import Use, use_of
from graphdoc.source.module import Source, parsed
from graphdoc.source.places import Place

_MODULES = ("autograd", "func", "torch")
"""``torch.autograd.grad`` is a function, not a gradient."""


def reads_gradient(sources: SourceTexts, frame: Frame | None) -> str:
    """The name ``x`` of the first ``x.grad`` that the frame's expression or line reads; empty where there is none."""
    if frame is None:
        return ""
    last = frame.end_line or frame.line
    for node in _gradients(bindings.tree(sources, frame.file)):
        if isinstance(node.ctx, ast.Load) and node.lineno <= last and frame.line <= (node.end_lineno or 0):
            return bindings.text_of(node.value)
    return ""


def gradients_within(sources: SourceTexts, frame: Frame) -> list[tuple[Frame, str]]:
    """The expressions ``x.grad`` that are read, or added to, within the frame's own expression; with ``x``."""
    root = bindings.tree(sources, frame.file)
    added = {n.target for n in ast.walk(root) if isinstance(n, ast.AugAssign)} if root is not None else set()
    places = [
        (bindings.frame_of(sources, frame.file, node, frame.function), bindings.text_of(node.value))
        for node in _gradients(root)
        if isinstance(node.ctx, ast.Load) or node in added
    ]
    return [found for found in places if _within(found[0], frame)]


def _within(inner: Frame, outer: Frame) -> bool:
    """Whether one place lies in another, of which the columns may not be known."""
    if outer.column <= 0 or outer.end_column <= 0:
        return outer.line <= inner.line <= max(outer.line, outer.end_line)
    begins = (outer.line, outer.column) <= (inner.line, inner.column)
    return begins and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)


def _gradients(root: ast.AST | None) -> Iterator[ast.Attribute]:
    """The expressions ``x.grad`` in a piece of source."""
    for node in ast.walk(root) if root is not None else ():
        if not isinstance(node, ast.Attribute) or node.attr != "grad":
            continue
        if bindings.text_of(node.value).rsplit(".", 1)[-1] not in _MODULES:
            yield node


def bare_read(sources: SourceTexts, at: Frame | None, stack: list[Frame]) -> tuple[Frame, str, str] | None:
    """Where a gradient that is read without its graph, ``g = p.grad.data``, goes on towards a call.

    Returns:
        The statement on the way to the call (of which this is the stack) that reads the name; the name, and the
        gradient (``p.grad``). Where the call stands in no statement that reads it: the place of ``p.grad.data`` itself,
        an empty name, and that expression. None where the gradient is read with its graph.
    """
    root = bindings.tree(sources, at.file) if at is not None else None
    if at is None or root is None:
        return None
    for node in ast.walk(root):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or node.lineno != at.line:
            continue
        value = node.value
        bare = value.func if isinstance(value, ast.Call) and not value.args else value
        if not isinstance(bare, ast.Attribute) or bare.attr not in ("data", "detach"):
            continue
        if not isinstance(bare.value, ast.Attribute) or bare.value.attr != "grad":
            continue
        name, gradient = bindings.text_of(node.targets[0]), bindings.text_of(bare.value)
        for frame in reversed(stack):
            if (frame.file, frame.function) == (at.file, at.function) and frame.line > at.line:
                call = bindings.call_at(sources, frame)
                if call is not None and any(bindings.is_name(a, name) for a in call.args):
                    return frame, name, gradient
        return bindings.frame_of(sources, at.file, value, at.function), "", bindings.text_of(value)
    return None


def gradients_are_read(sources: Mapping[str, str]) -> bool:
    """Whether the program reads a gradient itself, so that more than its optimizers may use one."""
    read = (n for text in sources.values() for n in _gradients(parsed(text)))
    return any(isinstance(n.ctx, ast.Load) for n in read)


def gradients_are_given(sources: Mapping[str, str]) -> bool:
    """Whether the program puts gradients of its own in the place of those that backward gives: ``p.grad = g``,
    ``p.grad.copy_(g)``, not ``p.grad = None``."""
    for name, text in sources.items():
        source = Source(name, text)
        for node in _gradients(source.tree):
            above = source.parents.get(node)
            if isinstance(above, ast.Assign) and node in above.targets:
                if not isinstance(above.value, ast.Constant):
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
    source = Source(frame.file, sources.get(frame.file, ""))
    return [(f, v) for f, v in own if not isinstance(source.node_statement(Place.of(f)), ast.AugAssign)]


def first_derivative(
    sources: SourceTexts, events: list[Event], failing_call: Event | None, here: Frame
) -> Frame | None:
    """The place of the last grad call with ``create_graph`` and the same inputs, other than the failing one's."""
    wanted = _inputs(sources, here)
    for event in reversed(events_before_failure(events, failing_call)):
        frame = innermost_user(event.stack)
        if event.kind != "grad" or not event.create_graph or frame is None:
            continue
        if frame.start == here.start:
            continue
        return frame if wanted and _inputs(sources, frame) == wanted else None
    return None


def _inputs(sources: SourceTexts, frame: Frame) -> str:
    return bindings.text_of(bindings.argument(bindings.call_at(sources, frame), 1, "inputs")).strip("[]()")


def reads_rows(sources: SourceTexts, frame: Frame | None, trained: Collection[str]) -> bool:
    """Whether the function that makes a backward call goes on to read the gradient of a tensor that it names, and that
    is none of the ``trained`` parameters: what it differentiates is no loss then, but a value for each row of that.

    A loop's variable is no such name: it stands for one parameter after the other.
    """
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None:
        return False
    scope = bindings.function_around(root, frame.line) or root
    loops = {
        n.id for f in ast.walk(scope) if isinstance(f, ast.For) for n in ast.walk(f.target) if isinstance(n, ast.Name)
    }
    last = {name.rpartition(".")[2] for name in trained}
    return any(
        isinstance(node.ctx, ast.Load)
        and node.lineno > frame.line
        and bindings.dotted(node.value)
        and bindings.text_of(node.value) not in loops
        and bindings.text_of(node.value).rpartition(".")[2] not in last
        for node in _gradients(scope)
    )
