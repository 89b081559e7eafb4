"""Ways to build a graph anew, or to walk it once: compute in the loop, ask once, count each term once."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.evidence import Frame, Node, SourceTexts
from graphdoc.finding import Remedy, edit_at, remedy_at
from graphdoc.program.asked_gradients import asks_the_same
from graphdoc.program.bindings import (
    call_at,
    decided_at,
    every_node,
    frame_of,
    function_around,
    function_at,
    scope_around,
    tree,
)
from graphdoc.program.calls_in_order import asks_for_some
from graphdoc.program.carried_names import bound_names
from graphdoc.program.container_entries import statements, user_frames
from graphdoc.program.gathered_parameters import makes_parameter
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse, with_graph
from graphdoc.program.spans import (
    apart,
    code_at,
    in_function,
    innermost_user,
    loop_of,
    node_loop_of,
    place,
    user_line,
    where,
)
from graphdoc.remedies.carried_value import detach_behind_step
from graphdoc.remedies.fix_places import applies, flag_set, titled, unique, written
from graphdoc.source.module import each, is_method_call, is_within, receiver_of, walked
from graphdoc.source.paths import bare_call, blocks_of, key, pairs, plain_names, same, targets_of
from graphdoc.story.older_graph import MOST_PLACES, adding
from graphdoc.story.wording import listing

# Two backward calls on one result: remove one of them.


def without_one(sources: SourceTexts, reuse: Reuse, first: Frame | None, second: Frame) -> tuple[Remedy, ...]:
    """Remove one of two calls on one result, of those that stand in the program's own text.

    The one on the bare loss where the other scales it, and where the other is a package's.
    """
    out: list[Remedy] = []
    if reuse.calls_before > 1:
        return ()  # of several calls on one result it is not known which is one too many
    if "backward(" in code_at(sources, second):
        note = "The loss is differentiated once; the second call goes through the same graph again."
        title = f"remove the second backward call, at {where(second)}"
        out.append(Remedy("delete_statement", title, "unsafe", note, {"place": place(second)}))
    if first is not None and (reuse.only_scaled or not out) and "backward(" in code_at(sources, first):
        note = f"The loss is differentiated once, by the call below {where(second)}."
        if out:
            note = f"The loss is differentiated once, by the call at {where(second)}, with its factor."
        title = f"remove the first backward call, at {where(first)}"
        out.insert(0, Remedy("delete_statement", title, "unsafe", note, {"place": place(first)}))
    return tuple(out)


# A loss that has terms which calls of their own have differentiated: one call on the loss counts each of them once.


def without_calls_on_terms(reuse: Reuse) -> tuple[Remedy, ...]:
    """Remove the calls on the terms, where they stand in the function that differentiates the whole loss."""
    call = user_line(reuse.failing)
    calls = [f for e in reuse.earlier_calls if (f := innermost_user(e.stack)) is not None]
    if call is None or not calls or any(not f.in_function_of(call) for f in calls):
        return ()
    several = "s" if len(calls) > 1 else ""
    title = f"remove the backward call{several} on the term{several}, at {listing([where(f) for f in calls])}"
    note = f"Each term counts once, by the call on the whole loss at {where(call)}."
    args = {"edits": [edit_at("delete_statement", f) for f in calls]}
    return (Remedy("several", title, "unsafe", note, args),)


# Ways to build a graph anew, or to walk it once: compute in the loop, ask once, start a sum anew.

_AGAIN = "Each iteration builds its own graph, with the parameters as they are then."

_ADDED = "what the calls give adds up where nothing clears it in between: whether it is to, no run tells"
_SAME = "each round takes the same gradient: whether what it is taken of is to be computed in the loop, no run tells"
_NAMED = " The parameter gets an attribute of its own, so that `parameters()` gives it to the optimizer."


def compute_again(program: Program, reuse: Reuse) -> list[Remedy]:
    """Evaluate in each iteration what was evaluated once: in the method that reads it, in the loop, without a cache.

    Only what can be written is proposed: each way is tried on the source here.
    """
    out: list[Remedy] = [*in_methods(program, reuse)]
    for c in reuse.values[:MOST_PLACES]:
        cached = [f for f in c.making if _caches(program.sources, f)]
        for frame in [*cached, *c.kept_at()][:1] if c.taken is not None else ():
            title = f"compute it each time instead of keeping it, at {where(frame)}"
            out.append(Remedy("uncache", title, "unsafe", _AGAIN, {"place": place(frame)}))
        if c.meeting is None:
            continue
        made, used = c.meeting
        if not _constructs(c.made, made):
            out.append(titled(program.sources, _in_round(program, reuse, made, used), made, "in the loop"))
        reader = _inner_reader(program.sources, made, c.using)
        if reader is not None:
            name = reader.function.rsplit(".", 1)[-1]
            args = {"places": [place(made)], "into": place(reader)}
            again = Remedy("move_into_loop", "", "unsafe", _AGAIN, args)
            out.append(titled(program.sources, again, made, f"in {name}, each time that function runs"))
    return [r for r in unique(out) if applies(program.sources, r)]


def with_what_it_is_made_of(program: Program, reuse: Reuse) -> list[Remedy]:
    """Evaluate in each round of the loop what was evaluated once, together with the values that it is made of, where
    these have graphs of their own."""
    out: list[Remedy] = []
    for c in reuse.values[:MOST_PLACES]:
        if c.meeting is None or _constructs(c.made, c.meeting[0]):
            continue
        alone = _in_round(program, reuse, *c.meeting)
        whole = replace(alone, args={**alone.args, "whole": True})
        if written(program.sources, whole) not in (None, written(program.sources, alone)):
            out.append(titled(program.sources, whole, c.meeting[0], "in the loop, with what it is made of"))
    return unique(out)


def _in_round(program: Program, reuse: Reuse, made: Frame, used: Frame) -> Remedy:
    """What is made in one statement is made in the loop around its use; without a title."""
    graphs = sorted(with_graph(program.evidence.extras, used.function))
    args = {"places": [place(made)], "loop": place(_round(program.sources, reuse, used)), "graphs": graphs}
    return Remedy("move_into_loop", "", "unsafe", _AGAIN, args)


def _round(sources: SourceTexts, reuse: Reuse, used: Frame) -> Frame:
    """The loop around the use that backward is called in too: one inside of it goes over what one graph is for."""
    stack = user_frames(reuse.failing.stack) if reuse.failing is not None else []
    call, loop = in_function(stack, used), loop_of(sources, used)
    while call is not None and loop is not None and not _covers(loop, call.line):
        loop = loop_of(sources, loop)
    return loop or used


def result_anew(program: Program, reuse: Reuse) -> list[Remedy]:
    """Compute the result that is differentiated again in the loop around the call; with all that it is made of, where
    all of it leads to what this one trains: that is used up, or older than the step, with the result."""
    made, call = made_outside(program, reuse), user_line(reuse.failing)
    if made is None or call is None:
        return []
    args = {"places": [place(made)], "loop": place(call)}
    again = Remedy("move_into_loop", "", "unsafe", _AGAIN, args)
    if reuse.from_one_root and set(program.evidence.reaches) <= reuse.meant:
        graphs = sorted(with_graph(program.evidence.extras, call.function))
        whole = replace(again, args={**args, "graphs": graphs, "whole": True})
        again = whole if written(program.sources, whole) is not None else again
    return [titled(program.sources, again, made, "in the loop")]


def made_outside(program: Program, reuse: Reuse) -> Frame | None:
    """The statement of the call's own function that makes what the call differentiates, on a line of its own."""
    root, call = program.node(program.evidence.root), user_line(reuse.failing)
    if root is None or call is None:
        return None
    made = in_function(user_frames(root.stack), call)
    return made if made is not None and made.line != call.line else None


def in_methods(program: Program, reuse: Reuse) -> list[Remedy]:
    """Attributes that one method (mostly ``__init__``) computes and others read: compute them where they are read."""
    places: dict[tuple[str, str], list[Frame]] = {}
    for c in reuse.values:
        attributes = [h for h in c.holders if h.steps and h.steps[-1].kind == "attribute"]
        for frame in c.kept_at(attributes)[:2]:
            ran = in_function(c.making, frame) is not None
            on_line = any(f.on_lines_of(frame) for f in c.made.stack)
            if ran and on_line and frame not in (group := places.setdefault((frame.file, frame.function), [])):
                group.append(frame)
    out: list[Remedy] = []
    for (_, function), group in places.items():
        group.sort(key=lambda f: f.line)
        names = list(dict.fromkeys(n for f in group for n in bound_names(program.sources, f)))
        at = ", ".join(where(f) for f in group[:3])
        leaf = makes_parameter(reuse.carries)
        title = f"compute {' and '.join(f'`{n}`' for n in names[:3])} in the method that reads "
        title += f"{'it' if len(names) == 1 else 'them'}, not once in {function.rsplit('.', 1)[-1]}, at {at}"
        note = _AGAIN + (_NAMED if leaf else "")
        out.append(Remedy("compute_in_method", title, "unsafe", note, {"places": [place(f) for f in group]}))
    return out


def _caches(sources: SourceTexts, frame: Frame) -> bool:
    """Whether a decorator of the frame's function keeps what it returns, for its object or for its arguments."""
    function = function_at(sources, frame)
    decorators = function.decorator_list if function is not None else []
    names = (ast.unparse(d.func if isinstance(d, ast.Call) else d).rsplit(".", 1)[-1] for d in decorators)
    return any(n in ("cached_property", "lru_cache", "cache") for n in names)


def _constructs(producer: Node, made: Frame) -> bool:
    """Whether the statement at ``made`` built an object, which then computed the value."""
    start = next((i for i, f in enumerate(producer.stack) if f is made), len(producer.stack))
    inner = [f for f in producer.stack[start + 1 :] if "distributions" not in f.file]
    return any(f.function.rpartition(".")[2] == "__init__" for f in inner)


def _inner_reader(sources: SourceTexts, made: Frame, stack: list[Frame]) -> Frame | None:
    """The frame of a function, written inside the one that made the value, which reads it (an optimizer's closure)."""
    root = tree(sources, made.file)
    names = set(bound_names(sources, made))
    outer = scope_around(root, made.line)
    for frame in stack:
        inner = function_around(root, frame.line) if frame.file == made.file else None
        if inner is None or inner is outer or not is_within(inner, outer):
            continue
        given = {n.arg for n in each(inner, ast.arg)}  # what it is given is another variable
        own = given | plain_names(inner, ast.Store)
        read = plain_names(inner, ast.Load)
        if read & names - own:
            return frame
    return None


def start_anew(program: Program, reuse: Reuse) -> list[Remedy]:
    """Reset the sum before its loop, or run backward on this iteration's term."""
    out: list[Remedy] = []
    call = user_line(reuse.failing)
    for frame in adding(program, reuse)[:1]:
        names = list(bound_names(program.sources, frame))
        loop = loop_of(program.sources, frame)
        inside = call is not None and loop is not None and call.file == frame.file and _covers(loop, call.line)
        # A sum that a loop makes for one call behind it is meant as a sum.
        alone = loop is None or inside
        if alone and call is not None and call.in_function_of(frame):
            title = f"call backward() on this iteration's loss, and add up a number at {where(frame)}"
            note = "Each loss is differentiated once, in its own iteration."
            out += remedy_at(frame, "accumulate_number", title, "unsafe", note, backward=place(call))
        if loop is not None and names and not _starts_before(program.sources, loop, names[0]):
            title = f"start `{names[0]}` again before the loop at {where(loop)}"
            note = "The sum holds the terms of this pass only, each with a graph that is still there."
            reset = remedy_at(loop, "add_statement", title, "unsafe", note, statement=f"{names[0]} = 0", before=True)
            out = [*out, *reset] if inside else [*reset, *out]
    if not reuse.same_line and call is not None:
        note = "Terms of it were differentiated by themselves before; this call would add their gradients once more."
        title = f"remove the backward call on the sum, at {where(call)}"
        return [*out, Remedy("delete_statement", title, "unsafe", note, {"place": place(call)})]
    return [*out, *detach_behind_step(program, reuse)]


def _covers(frame: Frame, line: int) -> bool:
    return frame.line <= line <= frame.end_line


def _starts_before(sources: SourceTexts, loop: Frame, path: str) -> bool:
    """Whether the last statement before the loop, in its own block, that sets the path sets it to a number."""
    for n in every_node(sources, loop.file):
        for block in blocks_of(n):
            for i, s in enumerate(block):
                if isinstance(s, ast.For | ast.While) and s.lineno == loop.line:
                    binding = [b for b in block[:i] if any(key(t) == path for n in walked(b) for t in targets_of(n))]
                    given = [v for t, v in pairs(binding[-1]) if ast.unparse(t) == path] if binding else []
                    return bool(given) and isinstance(given[-1], ast.Constant)
    return False


def repeated(program: Program, reuse: Reuse) -> tuple[Remedy, ...]:
    """Two calls on one root: ask once, or keep the graph of an inner grad call."""
    frame, freeing = user_line(reuse.failing), user_line(reuse.freeing)
    if reuse.failing is None or frame is None:
        return ()
    if reuse.failing.kind == "grad" and freeing is not None and freeing.line != frame.line:
        # Another line used the graph up: that is the call which has to keep it.
        frame = freeing
    if reuse.failing.kind == "grad":
        alike = reuse.same_line and asks_the_same(program.sources, frame)
        title = f"ask for all gradients in one autograd.grad call, at {where(frame)}"
        note = "One pass through the graph gives the same gradients."
        return (
            *remedy_at(frame, "grad_of_all", title, "safe", note),
            *(replace(r, open=_SAME) if alike else r for r in _kept(program.sources, reuse, frame)),
        )
    if not reuse.adds_nothing and (reuse.counts_again or reuse.carries):
        # One result, differentiated once in each round of a loop: it has to be computed in the loop.
        return without_calls_on_terms(reuse) if reuse.counts_again else tuple(compute_again(program, reuse))
    if reuse.same_line:
        # One statement in each round: without it there would be no backward call at all.
        kept = _kept(program.sources, reuse, frame) if asks_for_some(program.sources, reuse.failing) else ()
        newer = _put_beside(program.sources, frame)
        return newer or tuple(replace(r, safety="unsafe", open=_ADDED) for r in kept)
    second, first = apart(reuse.failing.stack, reuse.freeing.stack if reuse.freeing is not None else [])
    return without_one(program.sources, reuse, innermost_user(first), innermost_user(second) or frame)


def _put_beside(sources: SourceTexts, call: Frame) -> tuple[Remedy, ...]:
    """For a backward call on an entry of a list, into which the same round has put a newer one: differentiate that."""
    backward, loop = call_at(sources, call), node_loop_of(sources, call)
    entry = receiver_of(backward) if backward is not None else None
    if not isinstance(entry, ast.Subscript) or loop is None:
        return ()
    added = [b for s in statements(loop) if s.lineno < call.line and is_method_call(b := bare_call(s), "append")]
    added = [b for b in added if same(b.func.value, entry.value)]
    if not added:
        return ()
    put = frame_of(sources, call, added[-1])
    title = f"call backward() on what {where(put)} has put into `{ast.unparse(entry.value)}` in this round"
    note = f"`{ast.unparse(entry)}` was put there in an earlier round. The list keeps the numbers."
    return remedy_at(put, "accumulate_number", title, "unsafe", note, backward=place(call))


def _kept(sources: SourceTexts, reuse: Reuse, frame: Frame) -> tuple[Remedy, ...]:
    """Keep the graph in the grad call at ``frame``, or in the call of the function that hands it the flag."""
    call = reuse.freeing or reuse.failing
    decided = decided_at(sources, call.stack, "retain_graph") if call is not None else None
    at, flag = decided or (frame, "retain_graph")
    note = "The graph stays until the last call that needs it." + " No optimizer steps in between." * reuse.calm
    what = "autograd.grad" if reuse.failing is None or reuse.failing.kind == "grad" else "backward"
    title = f"keep the graph in the {what} call"
    if (at.file, at.line) != (frame.file, frame.line):
        title = f"keep the graph of the {what} call at {where(frame)}, by what is given"
    return (flag_set(at, title, note, flag=flag),)
