"""Forward passes that later writes do not reach: on clones of parameters, as a constant, or anew after the write."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from graphdoc.evidence import Frame, Node, Package, SourceTexts, Stale
from graphdoc.evidence.lookup import node_with
from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.bad_values import Birth, Trouble, divisor_of
from graphdoc.program.bindings import call_at, frame_of, function_around, text_of, tree
from graphdoc.program.carried_names import bound_names
from graphdoc.program.in_place_writes import operands_named
from graphdoc.program.installed import deed_of
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite, reached_without_line
from graphdoc.program.reuse import Reuse
from graphdoc.program.singular_points import singular_point
from graphdoc.program.spans import depth, in_function, innermost_user, level_of, place, shared_levels, where
from graphdoc.program.update_function import Scene, scene
from graphdoc.program.writers import By, Writer
from graphdoc.remedies.constant_value import as_one
from graphdoc.remedies.fix_places import applies
from graphdoc.source.effects import another_each_time
from graphdoc.source.module import Source
from graphdoc.source.operands import position_of
from graphdoc.source.paths import covers, last_word, names_read, names_written
from graphdoc.source.places import Place
from graphdoc.story.wording import listing

# A forward on clones of the parameters, which later writes do not touch: its graph keeps the values it ran with.


def clone_forward(program: Program, found: Overwrite) -> list[Remedy]:
    """Give each stale forward clones of the parameters, which later writes do not touch."""
    edits: list[dict[str, Any]] = []
    shown: list[str] = []
    write = found.writers[0] if found.writers else None
    at = scene(program, found)
    # A module of two names would keep the clone: PyTorch replaces it twice, and gives back what it found last.
    untied = {"untied": True} if any(p.several_names for p in program.parameters) else {}
    for stale in found.stales:
        node = program.node(stale.node)
        above = 0
        if node is not None and write is not None and found.failing is not None:
            above = depth(node.stack, write.stack, found.failing.stack)
            if at is not None and at.order == "within":
                # The write would go into the clones as well, if the call that does both ran on them.
                above = max(above, shared_levels(node.stack, write.stack))
        edit, frame = _clone_edit(program.sources, program.nodes, stale, above, untied)
        if edit is not None and edit not in edits:
            edits.append(edit)
            shown.append(where(frame))
    if not edits:
        return []
    kind, args = ("several", {"edits": edits}) if len(edits) > 1 else (edits[0]["kind"], edits[0]["args"])
    return [
        Remedy(
            kind,
            f"run the forward at {', '.join(dict.fromkeys(shown[:3]))} on clones of the parameters",
            "unsafe",
            "The gradient is that of the weights with which the forward ran, and flows through the clones into the "
            "parameters and everything below. It costs a copy of them.",
            args,
        )
    ]


def _clone_edit(
    sources: SourceTexts, nodes: list[Node], stale: Stale, above: int, untied: dict[str, Any]
) -> tuple[dict[str, Any] | None, Frame | None]:
    """The outermost module call below the function in which the steps are made; else the parameter at its use."""
    node = node_with(nodes, stale.node)
    stack = node.stack if node is not None else []
    users = 0
    of_module = "." in stale.tensor.name  # a tensor by itself is no module's to be exchanged
    for frame, inner in pairwise(stack if of_module else ()):
        users += frame.user
        if frame.user and users > above and not inner.user and "_call_impl" in inner.function:
            return {"kind": "clone_parameters", "args": {"place": place(frame), **untied}}, frame
    frame_ = innermost_user(stack)
    names = operands_named(sources, frame_, stale.tensor.name)
    if frame_ is None or not names:
        return None, None
    return {"kind": "clone_expression", "args": {"place": place(frame_), "operands": names}}, frame_


# A forward pass that is data for the loss which fails: taken detached, and only what follows it runs again.


def scored_again(program: Program, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """Run again, behind the step, what the loss learns from, on what another network gave as it was.

    A discriminator that learns from scores of images whose generator has been stepped: its optimizer holds nothing of
    what lies behind the images, and all that it trains lies between them and the loss. The images stay, detached;
    they are scored again.
    """
    if at is None or at.order != "straight" or found.same_loss:
        return []
    constants = _of_whole_statements(program.sources, at.forwards, _foreign(program, found, at))
    if not constants:
        return []
    rest = [f for f in at.forwards if f not in constants]
    lines = ", ".join(dict.fromkeys(where(f) for f in constants[:3]))
    remedy = Remedy(
        "recompute_after",
        f"detach what {lines} computes, and run what follows again for this loss, after {where(at.write)}",
        "unsafe",
        "No optimizer of this loss holds what that value was computed from, so it is a constant here; what follows "
        "uses the weights as they are then.",
        {
            "places": [place(f) for f in [*constants, *rest]],
            "after": place(at.write),
            "backward": place(at.backward),
            "constants": [place(f) for f in constants],
        },
    )
    return [remedy] if applies(program.sources, remedy) else []


def _foreign(program: Program, found: Overwrite, at: Scene) -> list[Frame]:
    """The stale forwards behind which the failing loss is surely not meant to train anything, while it is elsewhere."""
    trained = found.trained
    if not trained or not trained & set(program.evidence.reaches) or found.failing is None:
        return []
    write = found.writers[0]
    behind: dict[tuple[int, int], set[str]] = {}
    for stale in found.stales:
        node = program.node(stale.node)
        level = level_of(node.stack, write.stack, found.failing.stack) if node is not None else None
        if level is not None:
            behind.setdefault((level[0].line, level[0].column), set()).update(stale.behind)
    foreign = [f for f in at.forwards if (names := behind.get((f.line, f.column))) and not names & trained]
    # What a statement gives besides may be what the loss learns from.
    left = [(f, reached_without_line(program.evidence.folded, f)) for f in foreign]
    return [f for f, names in left if (_gives_one(program.sources, f) if names is None else names & trained)]


def _gives_one(sources: SourceTexts, line: Frame) -> bool:
    """Whether a statement binds one name."""
    return len(bound_names(sources, line)) == 1


def _of_whole_statements(sources: SourceTexts, forwards: Sequence[Frame], foreign: list[Frame]) -> list[Frame]:
    """Those of the foreign forwards whose statement computes nothing but them."""
    if not foreign:
        return []
    source = Source(foreign[0].file, sources.get(foreign[0].file, ""))
    found: list[Frame] = []
    for f in foreign:
        own = source.node_statement(Place.of(f))
        value = getattr(own, "value", None)
        beside = [other for other in forwards if source.node_statement(Place.of(other)) is own]
        whole = value is not None and any(source.place(value) == Place.of(b) for b in beside)
        if whole and all(b in foreign for b in beside):
            found.append(f)
    return found


# A package's function that writes into a tensor which it was only shown: it is handed a copy.


def copy_for_package(sources: SourceTexts, packages: list[Package], found: Overwrite) -> list[Remedy]:
    """A clone of the one argument that leads back to the overwritten tensor by its name.

    That the argument shares the tensor's memory is seen by the write itself. Not where the function's name says, as
    PyTorch's own do, that it writes (``clip_``).
    """
    writers, name = found.writers, found.stale.tensor.name
    frames = {place_of.line: place_of for w in writers if (place_of := w.frame) is not None}
    if not name or len(frames) != 1 or any(w.by is not By.LIBRARY for w in writers):
        return []
    if any(deed_of(packages, w.stack) is None for w in writers):
        return []
    frame = next(iter(frames.values()))
    call = call_at(sources, frame)
    callee = last_word(call.func) if call is not None else ""
    if call is None or not callee or callee.endswith("_"):
        return []
    shown = [a for a in (*call.args, *(k.value for k in call.keywords)) if _leads_to(a, name)]
    if len(shown) != 1:
        return []
    return [
        Remedy(
            "clone_expression",
            f"hand `{callee}` a copy of `{name}`, at {where(frame)}",
            "unsafe",
            f"It then writes into the copy: `{name}` keeps its values, which the write has changed.",
            {"place": place(frame_of(sources, frame.file, shown[0], frame.function))},
        )
    ]


def _leads_to(node: ast.expr, name: str) -> bool:
    """Whether an expression is the named tensor, or methods, attributes, parts of it: ``noise.detach()[0]``."""
    while ast.unparse(node) != name:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True


# Writes that run as a module's forward hook: inside the forward pass, right behind what the layer has saved.

REGISTERING = ("register_forward_hook", "register_module_forward_hook")


@dataclass(frozen=True)
class Hook:
    """``frame`` is the line that runs in the hook's own function, ``registered`` the calls that register it."""

    frame: Frame
    registered: tuple[Frame, ...]


def hook_of(sources: SourceTexts, writer: Writer | None) -> Hook | None:
    """The forward hook in which a write runs; None where it runs in none, or nothing registers it in the sources.

    ``Module._call_impl`` calls ``forward`` and the hooks; what it calls by another name than ``forward`` is a hook.
    """
    inner: Frame | None = None
    for frame in reversed(writer.stack if writer is not None else ()):
        # Decorators of the hook's own (``no_grad``) stand between it and what calls it.
        if not frame.user and "_call_impl" in frame.function:
            found = tuple(_registered(sources, inner)) if inner is not None else ()
            return Hook(inner, found) if inner is not None and found else None
        if frame.function.rpartition(".")[2] == "forward":
            return None
        inner = frame if frame.user else inner
    return None


def _registered(sources: SourceTexts, frame: Frame) -> Iterator[Frame]:
    owner, _, name = frame.function.rpartition(".")
    wanted = owner.rpartition(".")[2] if name == "__call__" else name
    for file in sources:
        root = tree(sources, file)
        for node in ast.walk(root) if root is not None else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in REGISTERING and node.args and _is_hook(root, node.args[0], wanted, name == "__call__"):
                yield frame_of(sources, file, node)


def _is_hook(root: ast.Module | None, given: ast.expr, wanted: str, instance: bool) -> bool:
    """Whether what is registered is the function of this name, or an object of the class of this name."""
    if instance:
        if isinstance(given, ast.Call):
            return last_word(given.func) == wanted
        return any(
            isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and last_word(n.value.func) == wanted
            for n in ast.walk(root or ast.Module([], []))
            if any(ast.unparse(t) == ast.unparse(given) for t in getattr(n, "targets", ()))
        )
    return last_word(given) == wanted


def hook_remedies(hook: Hook) -> list[Remedy]:
    """Write before the layer computes, or once the step is made."""
    lines = ", ".join(dict.fromkeys(where(f) for f in hook.registered[:3]))
    return [
        Remedy(
            "forward_pre_hook",
            f"run it as a forward pre-hook, registered at {lines}",
            "unsafe",
            "It writes before the layer computes: the pass runs with what was written, and its backward finds the same "
            "values. A step may leave other values until the next forward pass.",
            {"places": [place(f) for f in hook.registered], "hook": place(hook.frame)},
        ),
        Remedy(
            "write_after_step",
            "Write after `optimizer.step()`, under torch.no_grad(), and register no hook for it",
            "display",
            "Every pass runs with what was written after the step before; nothing writes between a forward pass and "
            "its backward.",
        ),
    ]


# A write into what an earlier graph needs, put behind the backward call that needs it.


def move_behind(program: Program, found: Overwrite) -> list[Remedy]:
    """Write behind the backward call, where the write is a statement of its own (or of a loop of its own)."""
    at = scene(program, found)
    if at is None or at.order != "straight" or any(w.by is By.LIBRARY for w in found.writers):
        return []
    source = Source(at.write.file, program.sources.get(at.write.file, ""))
    write, backward = source.node_statement(Place.of(at.write)), source.node_statement(Place.of(at.backward))
    above = [backward, *source.node_ancestors(backward)] if backward is not None else []
    whole = write
    while whole is not None:
        found_block = source.node_block(whole)
        anchor = next((a for a in above if found_block is not None and a in found_block[0]), None)
        if anchor is not None:
            break
        parent = source.parents.get(whole)
        whole = parent if isinstance(parent, ast.For | ast.With | ast.While) else None
    if whole is None or anchor is None or whole is anchor:
        return []
    return [
        Remedy(
            "move_statement",
            f"move the write at {where(at.write)} after the backward call at {where(at.backward)}",
            "unsafe",
            "The loss is differentiated with the values of its own forward; the write takes place right after.",
            {"place": vars(source.place(whole)), "after": vars(source.place(anchor)), "same_loss": True},
        )
    ]


# A loss that takes what was computed before a step, or for an earlier loss, where the same call stands again behind
# that, and nothing reads what it gives: a name that was meant to be the new one.


def behind_step(sources: SourceTexts, at: Scene | None) -> list[Remedy]:
    """For forwards before a step and a loss behind it."""
    return _unread(sources, at.lines, at.write, at.backward) if at is not None else []


def behind_call(program: Program, reuse: Reuse) -> list[Remedy]:
    """For values of a graph that an earlier call has used up, which another call than the failing one made."""
    makers = [program.node(c.producer) for c in reuse.carries]
    if reuse.calls is None or reuse.same_line or not makers or None in makers:
        return []
    freeing, failing = reuse.calls
    for backward in reversed([f for f in failing.stack if f.user]):
        earlier = in_function(freeing.stack, backward)
        made = [f for n in makers if n is not None and (f := in_function(n.stack, backward)) is not None]
        if earlier is not None and len(made) == len(makers):
            return _unread(program.sources, list({f.line: f for f in made}.values()), earlier, backward)
    return []


def _unread(sources: SourceTexts, forwards: list[Frame], after: Frame, backward: Frame) -> list[Remedy]:
    """Read the new values instead, wherever the failing loss is made of the old ones behind a line."""
    source = Source(backward.file, sources.get(backward.file, ""))
    if source.tree is None:
        return []
    scope = _Scope(source, function_around(source.tree, backward.line) or source.tree, after, backward)
    pairs = [scope.twin(f) for f in forwards]
    known = [p for p in pairs if p is not None]
    if not known or len(known) != len(pairs):
        return []
    taken = [(name, new, read) for name, new, made in known for read in scope.reads(name, made)]
    if {name for name, _, _ in taken} != {name for name, _, _ in known}:
        return []
    edits = [
        {"kind": "use_instead", "args": {"place": vars(source.place(r)), "operand": n, "name": t}} for n, t, r in taken
    ]
    old, new = listing(f"`{name}`" for name, _, _ in known), listing(f"`{twin}`" for _, twin, _ in known)
    it = "it" if len(known) == 1 else "them"
    note = (
        f"{new} {'is' if len(known) == 1 else 'are'} computed by the same call after {where(after)}, and nothing "
        f"reads {it}. The loss then gives its gradient to what this call has computed."
    )
    return [as_one(edits, f"use {new}, computed anew for this loss, in place of {old}", note)]


@dataclass
class _Scope:
    """A function with a line behind which something is computed again, and the backward call that fails."""

    source: Source
    node: ast.AST
    after: Frame
    backward: Frame

    def __post_init__(self) -> None:
        inside = [s for s in self.source.node_statements() if self._is_inside(s)]
        self.every = sorted(inside, key=lambda s: (s.lineno, s.col_offset))
        covering = [s for s in self.every if covers(s, self.backward.line)]
        self.around = set(covering)
        """The statements around the backward call, itself included."""

    def _is_inside(self, statement: ast.stmt) -> bool:
        function = self.source.node_function(statement)
        return function is self.node or (function is None and isinstance(self.node, ast.Module))

    def twin(self, forward: Frame) -> tuple[str, str, ast.stmt] | None:
        """The name of what a forward gave, the one that the same call gives its value behind the line and that nothing
        reads, and the statement of that."""
        made = [s for s in self.every if covers(s, forward.line) and _bound(s)]
        if len(made) != 1 or another_each_time(made[0]):
            return None
        name = _bound(made[0])
        loads = {n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        twins = [
            s
            for s in self.every
            if self.after.line < s.lineno < self.backward.line and _bound(s) not in {"", name, *loads}
            if _value(s) == _value(made[0]) and self._always_runs(s) and self._same(made[0], s)
        ]
        return (name, _bound(twins[0]), twins[0]) if len(twins) == 1 else None

    def _always_runs(self, statement: ast.stmt) -> bool:
        """Whether nothing stands around a statement that does not stand around the backward call as well."""
        above = [a for a in self.source.node_ancestors(statement) if isinstance(a, ast.stmt)]
        return all(a in self.around or a is self.node for a in above if a in self.every)

    def _same(self, made: ast.stmt, again: ast.stmt) -> bool:
        """Whether what the call is made of is the same both times, or bound by the same expression in between."""
        read = names_read(made)
        for s in self.every:
            if not made.lineno < s.lineno < again.lineno:
                continue
            for path in {*names_written(s)} & read:
                if not path.isidentifier() or _value(s) != self._last(path, made):
                    return False
        return True

    def _last(self, name: str, before: ast.stmt) -> str:
        """What was bound to a name before a statement."""
        found = [s for s in self.every if s.lineno < before.lineno and _bound(s) == name]
        return _value(found[-1]) if found else ""

    def reads(self, name: str, behind: ast.stmt) -> list[ast.stmt]:
        """The plain statements behind one that make the failing loss of a name; none where it is bound anew there."""
        last = [s for s in self.every if behind.lineno < s.lineno <= self.backward.line]
        if any(name in {*names_written(s)} for s in last):
            return []
        wanted: set[str] = set()
        found: list[ast.stmt] = []
        for s in reversed(last):
            plain = isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign)
            if not (covers(s, self.backward.line) and isinstance(s, ast.Expr)) and not (
                plain and {*names_written(s)} & wanted
            ):
                continue
            wanted |= names_read(s)
            found += [s] if name in names_read(s) else []
        return found


def _value(statement: ast.stmt) -> str:
    value = getattr(statement, "value", None)
    return text_of(value) if isinstance(value, ast.expr) else ""


def _bound(statement: ast.stmt) -> str:
    """The one name to which a statement binds the result of a call; empty for any other."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    return target.id if isinstance(statement.value, ast.Call) and isinstance(target, ast.Name) else ""


# Keeping a function's input inside of its domain: which guard, at every place of the iteration that needs it.


def guarded(
    trouble: Trouble, birth: Birth, guard: str, title: str, note: str, *, safety: Safety = "unsafe", **args: Any
) -> tuple[Remedy, ...]:
    """One patch that guards the operand of this expression, and of those in the same iteration that failed alike."""
    alike = [birth, *(b for b in trouble.others if _alike(birth, b))]
    edits: list[dict[str, Any]] = []
    for one in alike:
        if one.place is None:
            continue
        function = {"function": one.operation} if position_of(one.operation) else {}
        edit = {"kind": "guard_operand", "args": {"place": place(one.place), "guard": guard, **function, **args}}
        if edit not in edits:
            edits.append(edit)
    if not edits:
        return ()
    if len(edits) == 1:
        return (Remedy("guard_operand", title, safety, note, edits[0]["args"]),)
    return (
        Remedy("several", title, safety, note, {"edits": edits}),
        Remedy("guard_operand", title, safety, note, edits[0]["args"]),
    )


def _alike(a: Birth, b: Birth) -> bool:
    return a.group == b.group and bool(a.group) and b.kind == "birth" and a.node == b.node


def counts(birth: Birth) -> bool:
    """Whether what is divided by looks like a number of things: whole, never negative."""
    divisor = divisor_of(birth)
    if divisor is None or divisor.bounds is None:
        return False
    whole = all(bound.is_integer() for bound in divisor.bounds)
    return whole and not divisor.count("negative") and divisor.made_by("sum", "count_nonzero", "clone", "_to_copy")


def branches(trouble: Trouble, birth: Birth) -> list[dict[str, Any]]:
    """The functions of the same iteration that have no value where a choice leaves them out."""
    out: list[dict[str, Any]] = []
    for one in (birth, *trouble.others):
        point = singular_point(one.operation)
        if one.place is None or not (one.group or point) or (one.node and one.chosen is None):
            continue
        branch = {"place": place(one.place), "safe": point.safe if point is not None else "1.0"}
        branch |= {"function": one.operation} if position_of(one.operation) else {}
        if branch not in out:
            out.append(branch)
    return out
