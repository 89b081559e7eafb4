"""Ways to write no saved tensor: out of place, a clone at the use, no view, another hook, a later write."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Evidence, Frame, Node, SourceTexts, Stale, node_with
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.fixes.program_slices import lift
from graphdoc.model import Safety
from graphdoc.program.bindings import call_at, frame_of, source_at, statement_at, tree
from graphdoc.program.exception import SEVERAL_VIEWS, message_of
from graphdoc.program.installed import builders
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.parameter_paths import within
from graphdoc.program.refused_writes import RefusedWrite, flags_of, gradient_asked, is_for_its_effect
from graphdoc.program.spans import code_at, place, user_line, where
from graphdoc.program.update_function import scene
from graphdoc.program.writers import (
    By,
    Target,
    Writer,
    entry_written,
    is_in,
    is_statement,
    operands_named,
    read_by_another_name,
    saved_operand,
    target_of,
)
from graphdoc.source.module import Source, each
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place

EXACT = "Numbers and gradients stay those of the program as it is written; it costs one more tensor."
SAME = "Numbers and gradients stay the same, unless something else reads the changed tensor; each costs a new tensor."
CALLER = "The function works on its own tensor; the caller's tensor, which the write changed, keeps its numbers."

CUT = "A new tensor that is made under `no_grad` has no graph. What is computed from it sends no gradient further back."
ENTRY = "The list or dict gets the new tensor; another name that the caller has for the old one keeps its numbers."
OTHER = "`{}`, which was the same tensor, keeps its numbers, which the write changed."


def out_of_place(run: Evidence, found: Overwrite) -> list[Remedy]:
    """New tensors instead of writes, then clones before the writes: at every writing place.

    Where some of them write what a caller passed, which changes its numbers, the others alone come first: a name that
    is bound to a new tensor takes the later writes along. A tensor that none of the others wrote needs them all.
    """
    writers = found.writers
    own = [w for w in writers if not _of_caller(run, w)]
    groups = [own, writers] if len(own) < len(writers) and _reach(own, found.stales) else [writers]
    made = [_instead(run, group) for group in groups]
    return [r for remedies in made for r in remedies[0]] + [r for remedies in made for r in remedies[1]]


def instead_of_writing(run: Evidence, found: Overwrite) -> list[Remedy]:
    """New tensors in place of writes whose results the program uses: it computes something, with what happens to be
    another name of a parameter (``picture = grid.mul_(255)``, where ``grid`` is ``image.detach()``)."""
    targets = [target_of(run, w.frame) for w in found.writers]
    if not targets or any(
        t.whole or not t.local or w.by is not By.LINE for t, w in zip(targets, found.writers, strict=True)
    ):
        return []
    edits = [edit_at("out_of_place", f, caller=True) for w in found.writers for f in write_places(run.sources, w)]
    lines = ", ".join(dict.fromkeys(where(w.frame) for w in found.writers[:4] if w.frame is not None))
    note = f"The result is computed in a tensor of its own, and `{found.stale.tensor.name}` keeps its values."
    return together(edits, f"compute out of place, at {lines}", "unsafe", note)


def _reach(writers: Sequence[Writer], stales: Sequence[Stale]) -> bool:
    """Whether each of the tensors was written at one of these places."""
    places = {w.frame.start for w in writers if w.frame is not None}
    return all(any(f.start in places for write in s.writes for f in write.stack) for s in stales)


def _instead(run: Evidence, writers: Sequence[Writer]) -> tuple[list[Remedy], list[Remedy]]:
    auto: list[dict[str, Any]] = []
    clones: list[dict[str, Any]] = []
    shown: list[str] = []
    for w in writers:
        entry = entry_written(run.sources, w)
        named: dict[str, Any] = {"base": entry} if entry else {}
        container = {"container": True} if entry or target_of(run, w.frame).path.endswith("]") else {}
        caller = {"caller": True} if _gives_back(run, w) else {}
        for frame in write_places(run.sources, w):
            auto.append(edit_at("out_of_place", frame, **container, **named, **caller))
            clones.append(edit_at("out_of_place", frame, mode="clone", **named, **caller))
            shown.append(where(frame))
    lines = ", ".join(dict.fromkeys(shown[:4]))
    other = next((n for w in writers if (n := read_elsewhere(run, w))), "")
    cut, given = cuts_there(writers), any(_of_callers_container(run, w) for w in writers)
    safety: Safety = "unsafe" if cut or other or given or any(_of_caller(run, w) for w in writers) else "safe"
    note = SAME if safety == "safe" else CUT if cut else OTHER.format(other) if other else ENTRY if given else CALLER
    return (
        together(auto, f"compute out of place, at {lines}", safety, note),
        together(clones, f"clone the tensor before it is written, at {lines}", safety, note),
    )


def cuts_there(writers: Sequence[Writer]) -> bool:
    """Whether a new tensor in place of one of the writes would lose its graph: the write itself keeps it, though it is
    not recorded (under no_grad)."""
    return any(not w.grad_mode and w.stale is not None and w.stale.tensor.requires_grad for w in writers)


def read_elsewhere(run: Evidence, writer: Writer) -> str:
    """Another name of what is written, by which it is read afterwards, or may be: that of a store which holds it."""
    target = target_of(run, writer.frame)
    if entry_written(run.sources, writer):
        return ""  # the container gets the new tensor, for whoever reads it
    holders = writer.stale.tensor.holders if writer.stale is not None and target.path.isidentifier() else []
    # The namespace of a session holds every name of its own under that very name.
    stores = (h.path for h in holders if h.exact and len(h.steps) > 1 and h.steps[-1].key.strip("'\"") != target.path)
    return read_by_another_name(run.sources, writer.frame, target.path) or next(stores, "")


def _of_caller(run: Evidence, writer: Writer) -> bool:
    """Whether a write goes into what the function around was given: its caller's tensor gets other numbers."""
    target = target_of(run, writer.frame)
    if entry_written(run.sources, writer):
        return False
    return target.alias or (target.parameter and not target.local)


def _of_callers_container(run: Evidence, writer: Writer) -> bool:
    """Whether a write goes into an item of what the function around was given, and the program may reach that item, or
    does, by another name."""
    target = target_of(run, writer.frame)
    held = [h for h in writer.stale.tensor.holders if h.exact] if writer.stale is not None else []
    alone = bool(held) and all(is_in(h, target.path) for h in held)
    return target.parameter and not alone and bool(entry_written(run.sources, writer))


def _gives_back(run: Evidence, writer: Writer) -> bool:
    """Whether a function writes into what it was given while its caller takes up what it returns: that the caller's
    tensor changes too need not be meant."""
    if writer.frame is None or not _of_caller(run, writer):
        return False
    around = [f for f in writer.stack if f.user and f.function != writer.frame.function]
    source = Source(around[-1].file, run.sources.get(around[-1].file, "")) if around else None
    statement = source.node_statement(Place.of(around[-1])) if source is not None else None
    return statement is not None and not isinstance(statement, ast.Expr)


def write_places(sources: SourceTexts, writer: Writer) -> list[Frame]:
    """Where a write can be changed: its own line, or the call that built the module with ``inplace=True``."""
    if writer.frame is None:
        return []
    if is_statement(sources, writer.frame):
        return [writer.frame]
    return builders(sources, writer.frame, list(writer.stack))


def clone_what_is_saved(nodes: list[Node], found: Overwrite) -> list[Remedy]:
    """Clone the result right where an operation has saved it, so that the writes go into the clone.

    Of a call that saves and writes below itself, a clone of what it gives back comes too late. Where another operation
    has saved it as its input, the writes would reach that through the clone.
    """
    around = [f for w in found.writers for f in w.stack if f.user]
    edits = []
    shown = []
    for s in found.stales:
        frame = user_line(node_with(nodes, s.node))
        if frame in around or not s.output:
            return []
        if frame is not None and frame.column:
            edits.append(edit_at("clone_expression", frame))
            shown.append(where(frame))
    return together(edits, f"clone the result that is saved, at {', '.join(dict.fromkeys(shown[:3]))}", "safe", EXACT)


def clone_operand(run: Evidence, found: Overwrite) -> list[Remedy]:
    """Give the operation that saves the tensor a clone of it: found by its name in the expression.

    A result that was saved is cloned where it is computed. Each saved tensor needs one: with half of them the next one
    fails, so nothing is offered then.
    """
    edits = []
    shown = []
    saved = False
    for s in found.stales:
        node = run.node(s.node)
        frame = user_line(node)
        if frame is None or not frame.column:
            continue
        if s.output:
            edits.append(edit_at("clone_expression", frame))
            shown.append(f"the result at {where(frame)}")
            continue
        names = [*(h.path for h in s.tensor.holders), s.tensor.name, found.target.path]
        operands = next((o for n in dict.fromkeys(names) if n and (o := operands_named(run.sources, frame, n))), [])
        unnamed = saved_operand(run.sources, frame, node.op, s.attribute) if node is not None and not operands else None
        if not operands and unnamed is None:
            return []
        args = {"place": place(frame), "operands": operands} if unnamed is None else {"place": place(unnamed)}
        edits.append({"kind": "clone_expression", "args": args})
        shown.append(f"{operands[0] if unnamed is None else code_at(run.sources, unnamed)} at {where(frame)}")
        saved = True
    if not saved:
        return []
    note = "Backward then uses a copy of the values, which later writes do not reach. The numbers stay the same."
    return together(edits, f"use a clone of {', '.join(list(dict.fromkeys(shown))[:3])}", "safe", note)


# A tensor that is there to be filled, and needs no flag for that.

FLAG = "requires_grad"


def without_flag(program: Program, write: RefusedWrite) -> tuple[Remedy, ...]:
    """The flag dropped where a tensor is made that no optimizer of the program holds and no module owns: it is there to
    be filled, and what is written into it has the graph. One whose own gradient is taken is there for that."""
    frame, path = write.frame, write.target.path
    held = {p.name for p in program.parameters if p.owners}
    container, entry, _ = path.partition("[")
    # Of an entry only its container's name is known, and what goes by no module's name may be one.
    meant = {name for name, own in within(container, program.names).items() if entry or not own}
    stepped = bool(meant & held) or any(entry and "." not in name for name in held)
    if not program.optimizers or stepped or gradient_asked(program.sources, frame, path):
        return ()
    made = flags_of(program.sources, frame, path)
    if not made:
        return ()
    note = "No optimizer steps this tensor; what is written into it is then recorded, and gets its gradient through it."
    lines = " and ".join(dict.fromkeys(where(m) for m in made))
    title = f"do not let `{path}` require gradients where it is made, at {lines}"
    return tuple(together([_dropped(program.sources, m) for m in made], title, "safe", note))


def _dropped(sources: SourceTexts, made: Frame) -> dict[str, Any]:
    call = call_at(sources, made)
    method = call is not None and last_word(call.func) == "requires_grad_"
    args = {"place": place(made)}
    return {"kind": "drop_call", "args": args} if method else {"kind": "drop_keyword", "args": {**args, "name": FLAG}}


# Ways to write into no view of whose writes autograd keeps no track.


def instead_of_write(program: Program, places: list[Frame], target: Target) -> tuple[Remedy, ...]:
    """A new tensor or a clone in place of a write; where a loop runs over the pieces, what may be done with all."""
    sources, raised = program.sources, program.raised
    joined = [_joined(sources, f) for f in places] if message_of(raised, *SEVERAL_VIEWS) else []
    if joined and all(joined):
        # The loop's variable is not what is used afterwards: a new tensor under its name would be lost.
        lines = ", ".join(where(f) for f in places[:3])
        title = f"compute new pieces and join them, instead of writing into those of `{joined[0]}`, at {lines}"
        note = "All of it is differentiated. What else shares the memory of the tensor keeps its numbers, which the "
        note += "write would have changed."
        return tuple(together([edit_at("join_pieces", f) for f in places], title, "unsafe", note))
    unread = not target.path or all(is_for_its_effect(sources, f, target.path) for f in places)
    if unread and message_of(raised, *SEVERAL_VIEWS) and not program.evidence.events:
        # Before anything is differentiated, and read by nobody: the numbers of what it is a view of are begun so.
        blocks = [edit_at("under_no_grad_update", f) for f in places if _begins(program, f)]
        note = "What it is a view of gets these numbers, and nothing of it is recorded."
        return tuple(together(blocks, f"put the write at {where(places[0])} under torch.no_grad()", "unsafe", note))
    auto = [edit_at("out_of_place", f) for f in places]
    clones = [edit_at("out_of_place", f, mode="clone") for f in places]
    lines = ", ".join(where(f) for f in places[:3])
    note = "The write makes a new tensor; what it was a view of keeps its numbers."
    out = [
        *together(auto, f"compute out of place, at {lines}", "unsafe", note),
        *together(clones, f"clone the view before it is written, at {lines}", "unsafe", note),
    ]
    if not target.sliced and target.kept:
        out.reverse()
    base = next((b for f in places if (b := _base_read(sources, f, target.path))), "")
    left = f"`{base}` is read after the write, too: whether it is to see what is written, no run tells" if base else ""
    return tuple(replace(r, open=left) for r in out)


def _base_read(sources: SourceTexts, frame: Frame, path: str) -> str:
    """What the written view is a part of, where the function reads that behind the write."""
    from graphdoc.fixes.aliases import base_read_after

    source = source_at(sources, frame)
    owner = source.node_statement(Place.of(frame))
    return base_read_after(source, owner, path) if owner is not None else ""


def _begins(program: Program, frame: Frame) -> bool:
    """Whether a statement is a write alone, made while no module was computing its output."""
    alone = isinstance(statement_at(program.sources, frame), ast.Expr | ast.AugAssign)
    return alone and not program.raised_in_forward


def viewed_by(sources: SourceTexts, frame: Frame, path: str) -> str:
    """What a plain name is a part of where it is written (``self.table`` for the ``row`` of ``row = self.table[i]``);
    the path itself where it is no part of anything."""
    from graphdoc.fixes.aliases import view_binding

    source = source_at(sources, frame)
    owner = source.node_statement(Place.of(frame))
    bound = view_binding(source, owner, path) if owner is not None else None
    return source.segment(bound.base) if bound is not None and bound.base is not None else path


def _joined(sources: SourceTexts, frame: Frame) -> str:
    """The tensor over whose pieces a loop around the write runs; empty where there is none."""
    from graphdoc.fixes.pieces import pieces_at

    source = source_at(sources, frame)
    owner = source.node_statement(Place.of(frame))
    found = pieces_at(source, owner) if owner is not None else None
    return source.segment(found.base) if found is not None else ""


# Writes that run as a module's forward hook: inside the forward pass, right behind what the layer has saved.

REGISTERING = ("register_forward_hook", "register_module_forward_hook")


def hook_of(sources: SourceTexts, writer: Writer | None) -> list[Frame]:
    """The calls that register the forward hook in which a write runs; none where it runs in none.

    ``Module._call_impl`` calls ``forward`` and the hooks; what it calls by another name than ``forward`` is a hook.
    """
    inner: Frame | None = None
    for frame in reversed(writer.stack if writer is not None else ()):
        # Decorators of the hook's own (``no_grad``) stand between it and what calls it.
        if not frame.user and "_call_impl" in frame.function:
            return list(_registered(sources, inner)) if inner is not None else []
        if frame.function.rpartition(".")[2] == "forward":
            return []
        inner = frame if frame.user else inner
    return []


def _registered(sources: SourceTexts, frame: Frame) -> Iterator[Frame]:
    """The calls that register the function at a line, or an object made there whose ``__call__`` it is."""
    owner, _, name = frame.function.rpartition(".")
    wanted = owner.rpartition(".")[2] if name == "__call__" else name
    for file in sources:
        for node in each(tree(sources, file), ast.Call):
            if last_word(node.func) not in REGISTERING or not node.args:
                continue
            given = node.args[0]
            if last_word(given.func if isinstance(given, ast.Call) else given) == wanted:
                yield frame_of(sources, file, node)


def hook_remedies(registered: list[Frame]) -> tuple[Remedy, ...]:
    """Write before the layer computes, or once the step is made."""
    lines = ", ".join(dict.fromkeys(where(f) for f in registered[:3]))
    title = f"Register it with `register_forward_pre_hook` at {lines}, or write after `optimizer.step()`"
    note = "A pre-hook writes before the layer computes; after the step nothing writes until the next pass. Either "
    note += "way backward finds the values that its forward used."
    return (Remedy("write_outside_hook", title, "display", note),)


# A write into what an earlier graph needs, put behind the backward call that needs it.


def move_behind(program: Program, found: Overwrite) -> list[Remedy]:
    """Write behind the backward call, where the write is a statement of its own (or of a loop of its own)."""
    at = scene(program, found)
    if at is None or at.order != "straight" or any(w.by is By.LIBRARY for w in found.writers):
        return []
    source = source_at(program.sources, at.write)
    write, backward = source.node_statement(Place.of(at.write)), source.node_statement(Place.of(at.backward))
    whole = write
    while whole is not None and backward is not None:
        block, index = source.node_block(whole)
        if (anchor := lift(source, backward, block)) is not None:
            break
        parent = source.parents.get(whole)
        whole = parent if isinstance(parent, ast.For | ast.With | ast.While) else None
    if whole is None or backward is None or anchor is None or anchor == index:
        return []
    title = f"move the write at {where(at.write)} after the backward call at {where(at.backward)}"
    note = "The loss is differentiated with the values of its own forward; the write takes place right after."
    args = {"place": vars(source.place(whole)), "after": vars(source.place(block[anchor])), "same_loss": True}
    return [Remedy("move_statement", title, "unsafe", note, args)]
