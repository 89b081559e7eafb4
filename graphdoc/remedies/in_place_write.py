"""Ways to write no saved tensor: out of place where it is written, or a clone where it is used."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, Node, Optimizer, Raised, SourceTexts, Stale
from graphdoc.evidence.lookup import node_with
from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program import bindings
from graphdoc.program.bindings import call_at
from graphdoc.program.collected import ITERATORS
from graphdoc.program.in_place_writes import (
    Target,
    is_statement,
    operands_named,
    read_by_another_name,
    saved_operand,
    target_of,
)
from graphdoc.program.installed import builders
from graphdoc.program.learning import Learner, takes_the_flag
from graphdoc.program.library_calls import SEVERAL_VIEWS, message_of
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Made, made
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import code_at, innermost_user, place, where
from graphdoc.program.writers import By, Writer, entry_written
from graphdoc.program.written_leaves import RefusedWrite, flags_of, gradient_asked, is_for_its_effect, leads_to
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place
from graphdoc.story.missing_graph import named
from graphdoc.story.wording import listing

EXACT = "The numbers and the gradients are those of the program as it is written; it costs one more tensor."
SAME = (
    "The numbers and the gradients are those of the program as it is written, unless something else is to see the "
    "write; each costs a new tensor."
)
CALLER = "The function works on a tensor of its own; what its caller passed keeps its numbers, which the write changed."

CUT = "A new tensor that is made under `no_grad` has no graph. What is computed from it sends no gradient further back."
OTHER = "`{}`, which was the same tensor, keeps its numbers, which the write changed."


def together(edits: Sequence[dict[str, Any]], title: str, safety: Safety, note: str) -> list[Remedy]:
    """One remedy for all edits; none where there are none."""
    distinct = [e for i, e in enumerate(edits) if e not in edits[:i]]
    if not distinct:
        return []
    if len(distinct) == 1:
        return [Remedy(distinct[0]["kind"], title, safety, note, distinct[0]["args"])]
    return [Remedy("several", title, safety, note, {"edits": distinct})]


def out_of_place(sources: SourceTexts, raised: Raised | None, found: Overwrite) -> list[Remedy]:
    """New tensors instead of writes, then clones before the writes: at every writing place.

    Where some of them write what a caller passed, which changes its numbers, the others alone come first: a name that
    is bound to a new tensor takes the later writes along. A tensor that none of the others wrote needs them all.
    """
    writers = found.writers
    own = [w for w in writers if not _of_caller(sources, raised, w)]
    groups = [own, writers] if len(own) < len(writers) and _reach(own, found.stales) else [writers]
    made = [_instead(sources, raised, group) for group in groups]
    return [r for remedies in made for r in remedies[0]] + [r for remedies in made for r in remedies[1]]


def instead_of_writing(sources: SourceTexts, raised: Raised | None, found: Overwrite) -> list[Remedy]:
    """New tensors in place of writes whose results the program uses: it computes something, with what happens to be
    another name of a parameter (``picture = grid.mul_(255)``, where ``grid`` is ``image.detach()``)."""
    targets = [target_of(sources, raised, w.frame) for w in found.writers]
    if not targets or any(
        t.whole or not t.local or w.by is not By.LINE for t, w in zip(targets, found.writers, strict=True)
    ):
        return []
    edits = [
        {"kind": "out_of_place", "args": {"place": place(frame), "caller": True}}
        for w in found.writers
        for frame in write_places(sources, w)
    ]
    lines = ", ".join(dict.fromkeys(where(w.frame) for w in found.writers[:4] if w.frame is not None))
    note = f"The result is computed in a tensor of its own, and `{found.stale.tensor.name}` keeps its values."
    return together(edits, f"write out of place, at {lines}", "unsafe", note)


def _reach(writers: Sequence[Writer], stales: Sequence[Stale]) -> bool:
    """Whether each of the tensors was written at one of these places."""
    places = {w.frame.start for w in writers if w.frame is not None}
    return all(any(f.start in places for write in s.writes for f in write.stack) for s in stales)


def _instead(
    sources: SourceTexts, raised: Raised | None, writers: Sequence[Writer]
) -> tuple[list[Remedy], list[Remedy]]:
    auto: list[dict[str, Any]] = []
    clones: list[dict[str, Any]] = []
    shown: list[str] = []
    for w in writers:
        entry = entry_written(sources, w)
        named: dict[str, Any] = {"base": entry} if entry else {}
        container = {"container": True} if entry or target_of(sources, raised, w.frame).path.endswith("]") else {}
        caller = {"caller": True} if _gives_back(sources, raised, w) else {}
        for frame in write_places(sources, w):
            auto.append({"kind": "out_of_place", "args": {"place": place(frame), **container, **named, **caller}})
            clones.append({"kind": "out_of_place", "args": {"place": place(frame), "mode": "clone", **named, **caller}})
            shown.append(where(frame))
    lines = ", ".join(dict.fromkeys(shown[:4]))
    other = next((n for w in writers if (n := read_elsewhere(sources, raised, w))), "")
    cut = cuts_there(writers)
    safety: Safety = "unsafe" if cut or other or any(_of_caller(sources, raised, w) for w in writers) else "safe"
    note = SAME if safety == "safe" else CUT if cut else OTHER.format(other) if other else CALLER
    return (
        together(auto, f"write out of place, at {lines}", safety, note),
        together(clones, f"clone the tensor before it is written, at {lines}", safety, note),
    )


def cuts_there(writers: Sequence[Writer]) -> bool:
    """Whether a new tensor in place of one of the writes would lose its graph: the write itself keeps it, though it is
    not recorded (under no_grad)."""
    return any(not w.grad_mode and w.stale is not None and w.stale.tensor.requires_grad for w in writers)


def read_elsewhere(sources: SourceTexts, raised: Raised | None, writer: Writer) -> str:
    """Another name of what is written, by which it is read afterwards, or may be: that of a store which holds it."""
    target = target_of(sources, raised, writer.frame)
    if entry_written(sources, writer):
        return ""  # the container gets the new tensor, for whoever reads it
    holders = writer.stale.tensor.holders if writer.stale is not None and target.path.isidentifier() else []
    # The namespace of a session holds every name of its own under that very name.
    stores = (h.path for h in holders if h.exact and len(h.steps) > 1 and h.steps[-1].key.strip("'\"") != target.path)
    return read_by_another_name(sources, writer.frame, target.path) or next(stores, "")


def _of_caller(sources: SourceTexts, raised: Raised | None, writer: Writer) -> bool:
    """Whether a write goes into what the function around was given: its caller's tensor gets other numbers."""
    target = target_of(sources, raised, writer.frame)
    if entry_written(sources, writer):
        return False
    return target.alias or (target.parameter and not target.local)


def _gives_back(sources: SourceTexts, raised: Raised | None, writer: Writer) -> bool:
    """Whether a function writes into what it was given while its caller takes up what it returns: that the caller's
    tensor changes too need not be meant."""
    if writer.frame is None or not _of_caller(sources, raised, writer):
        return False
    around = [f for f in writer.stack if f.user and f.function != writer.frame.function]
    source = Source(around[-1].file, sources.get(around[-1].file, "")) if around else None
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

    Of a call that saves and writes below itself, a clone of what it gives back comes too late.
    """
    around = [f for w in found.writers for f in w.stack if f.user]
    edits = []
    shown = []
    for s in found.stales:
        node = node_with(nodes, s.node)
        frame = innermost_user(node.stack) if node is not None else None
        if frame in around:
            return []
        if s.output and frame is not None and frame.column:
            edits.append({"kind": "clone_expression", "args": {"place": place(frame)}})
            shown.append(where(frame))
    return together(edits, f"clone the result that is saved, at {', '.join(dict.fromkeys(shown[:3]))}", "safe", EXACT)


def clone_operand(sources: SourceTexts, nodes: list[Node], found: Overwrite) -> list[Remedy]:
    """Give the operation that saves the tensor a clone of it: found by its name in the expression.

    A result that was saved is cloned where it is computed. Each saved tensor needs one: with half of them the next one
    fails, so nothing is offered then.
    """
    edits = []
    shown = []
    saved = False
    for s in found.stales:
        node = node_with(nodes, s.node)
        frame = innermost_user(node.stack) if node is not None else None
        if frame is None or not frame.column:
            continue
        if s.output:
            edits.append({"kind": "clone_expression", "args": {"place": place(frame)}})
            shown.append(f"the result at {where(frame)}")
            continue
        names = [*(h.path for h in s.tensor.holders), s.tensor.name, found.target.path]
        operands = next((o for n in dict.fromkeys(names) if n and (o := operands_named(sources, frame, n))), [])
        unnamed = saved_operand(sources, frame, node.op, s.attribute) if node is not None and not operands else None
        if not operands and unnamed is None:
            return []
        args = {"place": place(frame), "operands": operands} if unnamed is None else {"place": place(unnamed)}
        edits.append({"kind": "clone_expression", "args": args})
        shown.append(f"{operands[0] if unnamed is None else code_at(sources, unnamed)} at {where(frame)}")
        saved = True
    if not saved:
        return []
    note = "The operations keep a copy of the values of now; later writes do not reach it. The numbers stay the same."
    return together(edits, f"use a clone of {', '.join(list(dict.fromkeys(shown))[:3])}", "safe", note)


# Letting what is to learn require gradients, where it is made.


def required(sources: SourceTexts, learners: list[Learner]) -> tuple[Remedy, ...]:
    """The flag where each is made, in its own call where that takes one."""
    edits: list[dict[str, Any]] = []
    for one in learners:
        if one.value is not None and takes_the_flag(sources, one):
            args: dict[str, Any] = {"place": place(one.value), "name": "requires_grad", "value": "True"}
            edits.append({"kind": "set_keyword", "args": args})
        elif one.value is not None:
            edits.append({"kind": "require_input_grad", "args": {"place": place(one.value)}})
        else:
            edits.append({"kind": "require_input_grad", "args": {"place": place(one.frame), "name": one.name}})
    note = "Autograd then records what is computed from it; no number of the forward pass changes."
    return tuple(together(edits, f"Let {named(learners)} require gradients", "unsafe", note))


# A tensor that is there to be filled, and needs no flag for that.

FLAG = "requires_grad"


def without_flag(program: Program, write: RefusedWrite) -> tuple[Remedy, ...]:
    """The flag dropped where a tensor is made that no optimizer of the program holds and no module owns: it is there to
    be filled, and what is written into it has the graph. One whose own gradient is taken is there for that."""
    frame, path = write.frame, write.target.path
    held = [p.name for p in program.parameters if p.owners]
    container, entry, _ = path.partition("[")
    # Of an entry only its container's name is known, and what goes by no module's name may be one.
    container = container.rpartition(".")[2]
    stepped = any(
        "." not in name or container in name.replace("[", ".").split(".") if entry else leads_to(path, name)
        for name in held
    )
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


# Letting the parameters learn that an optimizer was given: after the freezing, and nothing more than it holds.


def unfreeze(program: Program, freezing: list[Frame]) -> tuple[Remedy, ...]:
    """Make trainable what the one optimizer holds, before the statement that makes it; or, where an ``if`` and its
    ``else`` freeze alike, so that the condition decides nothing, let the ``else`` keep them trainable."""
    arm = _other_arm(program.sources, freezing)
    if arm is not None:
        return remedy_at(
            arm,
            "set_flag",
            f"Leave the others trainable, at {where(arm)}",
            "unsafe",
            "Both branches freeze, so the condition decides nothing: only what it names stays frozen then.",
            value="True",
        )
    frozen = {p.name for p in program.parameters if not p.buffer and not p.requires_grad}
    holders = [o for o in program.optimizers if o.parameters and frozen & {*o.parameters}]
    making = made(program.sources, holders[0].name) if len(holders) == 1 else None
    if making is None or not all(_is_before(program.sources, f, making) for f in freezing) or not freezing:
        return ()
    return _whole(program.sources, making, holders[0])


def _whole(sources: SourceTexts, making: Made, optimizer: Optimizer) -> tuple[Remedy, ...]:
    call = making.statement.value
    given = bindings.argument(call, 0, "params") if isinstance(call, ast.Call) else None
    function = given.func if isinstance(given, ast.Call) and not given.args and not given.keywords else None
    if not isinstance(function, ast.Attribute) or function.attr != "parameters":
        return ()
    module = bindings.text_of(function.value)
    if heads := _made_anew(sources, making, module):
        at = place(making.frame(sources))
        statements = [f"{h}.requires_grad_(True)" for h in heads]
        edits = [{"kind": "add_statement", "args": {"place": at, "statement": s, "before": True}} for s in statements]
        shown = listing([f"`{h}`" for h in heads])
        note = f"This unfreezes what was put in place anew, and nothing else that lies in `{module}`."
        title = f"Let {shown} learn, which {'was' if len(heads) == 1 else 'were'} put into `{module}`"
        return tuple(together(edits, title, "unsafe", note))
    whole = remedy_at(
        making.frame(sources),
        "add_statement",
        f"Let `{module}` learn, which {f'`{optimizer.name}`' if optimizer.name else 'the optimizer'} was given",
        "unsafe",
        f"This unfreezes what lies in `{module}`, and nothing else; what the loss does not use gets no gradient by it.",
        statement=f"{module}.requires_grad_(True)",
        before=True,
    )
    left = f"whether all of `{module}` is to learn, which the program freezes and hands to its optimizer, no run tells"
    return tuple(replace(r, open=left) for r in whole)


def _made_anew(sources: SourceTexts, making: Made, module: str) -> list[str]:
    """The parts that the program has put into a network, before its optimizer, in the place of what it had:
    ``model.fc = nn.Linear(512, 3)``. Who freezes all of it behind that hardly means these."""
    root = bindings.tree(sources, making.file)
    line = making.statement.lineno
    found: dict[str, None] = {}
    for node in ast.walk(root) if root is not None else ():
        if isinstance(node, ast.Assign) and node.lineno < line and isinstance(node.value, ast.Call):
            builds = last_word(node.value.func)[:1].isupper()
            paths = [bindings.text_of(t) for t in node.targets if isinstance(t, ast.Attribute | ast.Subscript)]
            found.update((p, None) for p in paths if builds and p.startswith((f"{module}.", f"{module}[")))
    return list(found)


def _is_before(sources: SourceTexts, frame: Frame, making: Made) -> bool:
    """Whether the optimizer is surely made behind this statement: in its function, or in one that calls that above."""
    root = bindings.tree(sources, frame.file)
    if root is None:
        return False
    line = making.statement.lineno
    around = bindings.function_around(root, frame.line)
    own = bindings.tree(sources, making.file)
    outer = bindings.function_around(own, line) if own is not None else None
    if frame.file == making.file and (around is outer or (around and outer and around.lineno == outer.lineno)):
        return frame.line < line
    if around is None or own is None:
        return False
    calls = (n for n in bindings.shallow(outer or own) if isinstance(n, ast.Call) and n.lineno < line)
    return any(bindings.text_of(c.func).rsplit(".", 1)[-1] == around.name for c in calls)


def _other_arm(sources: SourceTexts, freezing: list[Frame]) -> Frame | None:
    """The assignment in the ``else`` of an ``if`` whose own branch does the very same."""
    for file in {f.file for f in freezing}:
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.If) and len(node.body) == 1 == len(node.orelse):
                one, other = node.body[0], node.orelse[0]
                at = bindings.frame_of(sources, file, other)
                same = ast.unparse(one) == ast.unparse(other)
                if same and any((f.line, f.column) == (at.line, at.column) for f in freezing):
                    return next(f for f in freezing if (f.line, f.column) == (at.line, at.column))
    return None


# A generator of parameters that a first loop uses up, so that a second one has nothing to run over.


def used_up(sources: SourceTexts) -> tuple[Remedy, ...]:
    """Make a list of each such generator."""
    found = []
    for file in sources:
        root = bindings.tree(sources, file) or ast.Module([], [])
        scopes = [root, *(n for n in ast.walk(root) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))]
        for scope in scopes:
            found += [bindings.frame_of(sources, file, value) for value in _generators(scope)]
    return tuple(
        Remedy(
            "wrap_in_list",
            f"make a list of the parameters at {where(frame)}: the first loop uses the generator up",
            "unsafe",
            "The second loop then runs over the parameters too.",
            {"place": place(frame)},
        )
        for frame in found
    )


def _generators(scope: ast.AST) -> list[ast.Call]:
    """The calls whose result has a name that two loops of this scope run over, bound once."""
    inside = list(bindings.shallow(scope))
    loops = [n.iter.id for n in inside if isinstance(n, ast.For) and isinstance(n.iter, ast.Name)]
    bound: dict[str, list[ast.expr]] = {}
    for node in inside:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
    return [
        values[0]
        for name, values in bound.items()
        if len(values) == 1 and loops.count(name) > 1
        if isinstance(values[0], ast.Call) and bindings.dotted(values[0].func).rpartition(".")[2] in ITERATORS
    ]


# Ways to write into no view of whose writes autograd keeps no track.


def instead_of_write(program: Program, places: list[Frame], target: Target) -> tuple[Remedy, ...]:
    """A new tensor or a clone in place of a write; where a loop runs over the pieces, what may be done with all."""
    sources, raised = program.sources, program.raised
    leaves = {p.name.rsplit(".", 1)[-1] for p in program.parameters if p.is_leaf and p.requires_grad}
    joined = [_joined(sources, f) for f in places] if message_of(raised, *SEVERAL_VIEWS) else []
    if joined and all(joined):
        # The loop's variable is not what is used afterwards: a new tensor under its name would be lost.
        lines = ", ".join(where(f) for f in places[:3])
        of_leaf = joined[0].rsplit(".", 1)[-1] in leaves
        return (
            *together(
                [{"kind": "join_pieces", "args": {"place": place(f)}} for f in places],
                f"compute new pieces and join them, instead of writing into those of `{joined[0]}`, at {lines}",
                "unsafe",
                "All of it is differentiated. What else shares the memory of the tensor keeps its numbers, which the "
                "write would have changed.",
            ),
            *together(
                # Into a piece of a leaf may not be written, however it is taken.
                [{"kind": "pieces_by_index", "args": {"place": place(f)}} for f in ([] if of_leaf else places)],
                f"take the pieces of `{joined[0]}` one by one, by their index, where {lines} writes into them",
                "unsafe",
                f"Into a piece that is taken by itself may be written; `{joined[0]}` is written with it, as before.",
            ),
        )
    unread = not target.path or all(is_for_its_effect(sources, f, target.path) for f in places)
    if unread and message_of(raised, *SEVERAL_VIEWS) and not program.evidence.events:
        # Before anything is differentiated, and read by nobody: the numbers of what it is a view of are begun so.
        blocks = [{"kind": "under_no_grad_update", "args": {"place": place(f)}} for f in places if _begins(program, f)]
        note = "What it is a view of gets these numbers, and nothing of it is recorded."
        return tuple(together(blocks, f"put the write at {where(places[0])} under torch.no_grad()", "unsafe", note))
    auto = [{"kind": "out_of_place", "args": {"place": place(f)}} for f in places]
    clones = [{"kind": "out_of_place", "args": {"place": place(f), "mode": "clone"}} for f in places]
    lines = ", ".join(where(f) for f in places[:3])
    note = "The write makes a new tensor; what it was a view of keeps its numbers."
    out = [
        *together(auto, f"write out of place, at {lines}", "unsafe", note),
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

    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    return base_read_after(source, owner, path) if owner is not None else ""


def _begins(program: Program, frame: Frame) -> bool:
    """Whether a statement is a write alone, made while no module was computing its output."""
    source = Source(frame.file, program.sources.get(frame.file, ""))
    alone = isinstance(source.node_statement(Place.of(frame)), ast.Expr | ast.AugAssign)
    return alone and not program.raised_in_forward


def _joined(sources: SourceTexts, frame: Frame) -> str:
    """The tensor over whose pieces a loop around the write runs; empty where there is none."""
    from graphdoc.fixes.pieces import pieces_at

    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    found = pieces_at(source, owner) if owner is not None else None
    return source.segment(found.base) if found is not None else ""
