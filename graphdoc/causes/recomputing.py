"""Ways to build a graph anew, or to walk it once: compute in the loop, merge the calls, start a sum anew."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Remedy
from graphdoc.causes.carrying import detach_behind_step
from graphdoc.causes.keeping import bound_names, kept_at, meeting, user_frames
from graphdoc.causes.names import frame_of, function_around, tree
from graphdoc.causes.oldgraph import MOST_PLACES, adding, distinct_carries
from graphdoc.causes.reuse import Reuse
from graphdoc.causes.spans import innermost_user, place, where
from graphdoc.evidence import Evidence, Frame


def compute_again(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """Evaluate in each iteration what was evaluated once: move the statement into the loop, or drop the cache."""
    out: list[Remedy] = []
    note = "Each iteration builds its own graph, so the parameters behind it are trained on their current values."
    for c in distinct_carries(evidence, reuse.carries)[:MOST_PLACES]:
        producer, consumer = evidence.node(c.producer), evidence.node(c.consumer)
        if producer is None or consumer is None:
            continue
        for frame in kept_at(evidence, c.tensor.holders, producer)[:1]:
            out.append(
                Remedy(
                    "uncache",
                    f"compute it each time instead of keeping it, at {where(frame)}",
                    "unsafe",
                    note,
                    {"place": place(frame)},
                )
            )
        pair = meeting(producer, consumer)
        if pair is not None:
            made, used = pair
            out.append(
                Remedy(
                    "move_into_loop",
                    f"compute it in the loop: move {where(made)} into it",
                    "unsafe",
                    note,
                    {"places": [place(made)], "loop": place(used)},
                )
            )
            reader = _inner_reader(evidence, made, user_frames(consumer.stack))
            if reader is not None:
                out.append(
                    Remedy(
                        "move_into_loop",
                        f"compute it in {reader.function.rsplit('.', 1)[-1]}, each time that function runs: move "
                        f"{where(made)} into it",
                        "unsafe",
                        note,
                        {"places": [place(made)], "into": place(reader)},
                    )
                )
    return unique(out)


def _inner_reader(evidence: Evidence, made: Frame, stack: list[Frame]) -> Frame | None:
    """The frame of a function, written inside the one that made the value, which reads it (an optimizer's closure)."""
    root = tree(evidence, made.file)
    names = set(bound_names(evidence, made))
    outer = function_around(root, made.line) if root is not None else None
    if root is None or outer is None:
        return None
    for frame in stack:
        inner = function_around(root, frame.line) if frame.file == made.file else None
        if inner is None or inner is outer or not any(n is inner for n in ast.walk(outer)):
            continue
        if any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names for n in ast.walk(inner)):
            return frame
    return None


def merge(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """One backward call on the sum of the losses."""
    if reuse.freeing is None or reuse.failing is None:
        return []
    one, other = innermost_user(reuse.freeing.stack), innermost_user(reuse.failing.stack)
    if one is not None and other is not None and place(one) == place(other):
        return [
            Remedy(
                "merge_backward",
                f"call backward() once on the sum of the losses, instead of once for each, at {where(one)}",
                "safe",
                "Gradients add up: the sum has the gradient that all the calls together were meant to give.",
                {"places": [place(one)]},
            )
        ]
    for first in user_frames(reuse.freeing.stack):
        for second in user_frames(reuse.failing.stack):
            if first.file == second.file and first.function == second.function and first.line != second.line:
                return [
                    Remedy(
                        "merge_backward",
                        f"call backward() once, on the sum of both losses, at {where(second)}",
                        "safe",
                        "Gradients add up: the sum has the gradient that both calls together were meant to give.",
                        {"places": [place(first), place(second)]},
                    )
                ]
    return []


def start_anew(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """Reset the sum before its loop, or run backward on this iteration's term."""
    out: list[Remedy] = []
    call = innermost_user(reuse.failing.stack) if reuse.failing else None
    for frame in adding(evidence, reuse)[:1]:
        names = list(bound_names(evidence, frame))
        loop = _loop_around(evidence, frame)
        inside = call is not None and loop is not None and call.file == frame.file and _covers(loop, call.line)
        if call is not None and (call.file, call.function) == (frame.file, frame.function):
            out.append(
                Remedy(
                    "accumulate_number",
                    f"call backward() on this iteration's loss, and add up a number at {where(frame)}",
                    "unsafe",
                    "Each loss is differentiated once, in its own iteration.",
                    {"place": place(frame), "backward": place(call)},
                )
            )
        if loop is not None and names:
            reset = Remedy(
                "reset_accumulator",
                f"start `{names[0]}` anew before the loop at {where(loop)}",
                "unsafe",
                "The sum holds the terms of this pass only, each with a graph that is still there.",
                {"place": place(loop), "name": names[0]},
            )
            out.insert(len(out) if inside else 0, reset)
    return [*out, *detach_behind_step(evidence, reuse)]


def _covers(frame: Frame, line: int) -> bool:
    return frame.line <= line <= frame.end_line


def _loop_around(evidence: Evidence, frame: Frame) -> Frame | None:

    root = tree(evidence, frame.file)
    if root is None:
        return None
    scope: ast.AST = function_around(root, frame.line) or root
    loops = [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.For | ast.While) and n.lineno <= frame.line <= (n.end_lineno or n.lineno)
    ]
    inner = max(loops, key=lambda n: n.lineno, default=None)
    return frame_of(evidence, frame.file, inner, frame.function) if inner is not None else None


def repeated(evidence: Evidence, reuse: Reuse) -> tuple[Remedy, ...]:
    """Two calls on one root: ask once, or keep the graph of an inner grad call."""
    if reuse.failing is None:
        return ()
    frame = innermost_user(reuse.failing.stack)
    if frame is None:
        return ()
    freeing = innermost_user(reuse.freeing.stack) if reuse.freeing is not None else None
    if reuse.failing.kind == "grad" and freeing is not None and freeing.line != frame.line:
        # Another line used the graph up: that is the call which has to keep it.
        frame = freeing
    if reuse.failing.kind == "grad":
        return (
            Remedy(
                "grad_of_all",
                f"ask for all gradients in one autograd.grad call, at {where(frame)}",
                "safe",
                "One walk over the graph gives the same gradients.",
                {"place": place(frame)},
            ),
            Remedy(
                "retain_graph",
                f"keep the graph in the autograd.grad call at {where(frame)}",
                "safe",
                "The graph stays until the last call that needs it; nothing is stepped in between.",
                {"place": place(frame)},
            ),
        )
    if reuse.carries:
        # One result, differentiated once in each round of a loop: it has to be computed in the loop.
        return tuple(compute_again(evidence, reuse))
    out = [
        Remedy(
            "delete_statement",
            f"remove the second backward call, at {where(frame)}",
            "unsafe",
            "The loss is differentiated once; the second call would have added the same gradients again.",
            {"place": place(frame)},
        )
    ]
    return tuple([*merge(evidence, reuse), *out][-1:])


def unique(remedies: list[Remedy]) -> list[Remedy]:
    out: list[Remedy] = []
    for r in remedies:
        if not any(o.kind == r.kind and o.args == r.args for o in out):
            out.append(r)
    return out
