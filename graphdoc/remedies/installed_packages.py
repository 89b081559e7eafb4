"""Graphs that an installed package keeps, and tensors that it writes: switched off, cleared, or handed a copy."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.evidence import Event, Package, SourceTexts, package_of
from graphdoc.finding import Remedy, edit_at, remedy_at
from graphdoc.program.bindings import call_at, everywhere, frame_of
from graphdoc.program.carried_names import Carried
from graphdoc.program.container_entries import kept_name
from graphdoc.program.installed import Deed, Switch, deed_of, given, keepers_of, switch_of, switches_of
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import node_loop_of, place, user_line, where
from graphdoc.program.writers import By
from graphdoc.source.module import each, is_method_call
from graphdoc.source.paths import is_set, last_word

# A cache of an installed package that keeps a graph: to be switched off where it was switched on, or cleared.


def without_cache(reuse: Reuse) -> list[Remedy]:
    """The user's arguments by which a package keeps these values for later passes, given as off; none where a value is
    kept otherwise."""
    found: dict[tuple[int, int], Switch] = {}
    for c in reuse.carries:
        switches = _switches(c)
        if not switches:
            return []
        found.update({s.frame.start[1:]: s for s in switches})
    if not found:
        return []
    first = next(iter(found.values()))
    edits = [edit_at("set_keyword", s.call, name=s.name, value="False") for s in found.values()]
    shown = " and ".join(dict.fromkeys(where(s.frame) for s in found.values()))
    title = f"leave out the cache: {first.name}=False, at {shown}"
    note = "Each pass computes it from the weights of now."
    return [Remedy("several", title, "unsafe", note, {"edits": edits})]


def cleared_by_call(program: Program, reuse: Reuse) -> list[Remedy]:
    """The call by which the package clears what it keeps, for the user to write in each iteration; none where the
    program itself may have kept the value."""
    found = program.evidence.extras.get("clearing")
    if not isinstance(found, dict):
        return []
    held = str(found.get("held") or "")
    ways = [h.path for c in reuse.carries for h in c.holders if h.exact]
    alone = all(path == held or path.startswith(f"{held}.") for path in ways)  # else the program carries it on as well
    if not (alone and _is_bound_again(program.sources, reuse.failing, held) if held else reuse.kept_by_package):
        return []
    file = str(found.get("file"))
    package = package_of(program.packages, file)
    told, path = (package.told, package.path_of(file)) if package is not None else ("it", file)
    call = user_line(reuse.failing)
    around = node_loop_of(program.sources, call) if call is not None else None
    when = "in each iteration, before the value is computed" if around is not None else "before it is computed again"
    title = f"call `{found.get('call')}` {when}: {told} then clears `{found.get('kept')}` ({path}:{found.get('line')})"
    note = "What is kept there is of an earlier iteration; cleared, it is computed with the weights of now."
    return [Remedy("clear_what_is_kept", title, "display", note)]


def _is_bound_again(sources: SourceTexts, failing: Event | None, name: str) -> bool:
    """Whether the round of the failing call has bound a name anew to what a package's function or property gave, which
    was a value of an earlier round."""
    call = user_line(failing)
    loop = node_loop_of(sources, call) if call is not None else None
    if call is None or loop is None:
        return False
    bound = [s for s in each(loop, ast.Assign) if s.lineno <= call.line]
    given = [s.value for s in bound if any(ast.unparse(t) == name for t in s.targets)]
    return bool(given) and all(not _is_own(sources, value) for value in given)


def _is_own(sources: SourceTexts, value: ast.expr) -> bool:
    """Whether the program itself defines or sets what gives a value."""
    giving = value.func if isinstance(value, ast.Call) else value
    if not isinstance(giving, ast.Attribute) and giving is value:
        return True
    word = last_word(giving)
    set_somewhere = (n.attr == word and is_set(n) for _, n in everywhere(sources, ast.Attribute))
    return any(set_somewhere) or any(n.name == word for _, n in everywhere(sources, ast.FunctionDef))


def _switches(carry: Carried) -> list[Switch]:
    """What the user gave to let a package keep this value."""
    for holder in carry.holders:
        for deed in keepers_of(carry.run.packages, carry.made.stack, kept_name(holder)):
            switches = switches_of(carry.run.sources, deed)
            if switches:
                return switches
    return []


# Features of installed packages that a program switches on by an argument, with their remedy in its words.


@dataclass(frozen=True)
class Feature:
    """A package's name for running layers under a checkpoint, and what makes the checkpoint a non-reentrant one.

    ``keyword`` and ``value`` go where the feature is switched on; ``instead`` is a call that cures it otherwise.
    """

    keyword: str
    value: str
    instead: str


CHECKPOINTING = {
    # transformers 4.35 and later: TrainingArguments and PreTrainedModel.gradient_checkpointing_enable take it, and
    # without it 4.x checkpoints in the reentrant form (transformers/modeling_utils.py).
    ("transformers", "gradient_checkpointing"): Feature(
        "gradient_checkpointing_kwargs", '{"use_reentrant": False}', "model.enable_input_require_grads()"
    ),
}


def checkpointing_switch(
    sources: SourceTexts, packages: list[Package], deed: Deed | None
) -> tuple[Switch | None, Feature | None]:
    """What switched a package's checkpoint on, and what is known of it there.

    Read off the condition around the package's line where that line is known; otherwise a name that a package on the
    stacks is known to use.
    """
    if deed is not None:
        switch = switch_of(sources, deed)
        return switch, CHECKPOINTING.get((deed.package.name, switch.name)) if switch is not None else None
    for (package, name), feature in CHECKPOINTING.items():
        if any(p.name == package for p in packages):
            for file in sources:
                switch = next(iter(given(sources, file, name)), None)
                if switch is not None:
                    return switch, feature
    return None, None


def checkpointing_remedies(switch: Switch, feature: Feature | None, package: str) -> Sequence[Remedy]:
    """The non-reentrant form where the feature is switched on; the package's own way to let the inputs have grad."""
    at = where(switch.call)
    if feature is None:
        title = f"Ask {package} for the non-reentrant checkpoint (use_reentrant=False) where it is switched on: {at}"
        note = "The same values, and the gradients that a call without checkpoint gives."
        return [Remedy("non_reentrant", title, "display", note)]
    title = f"Pass {feature.keyword}={feature.value}, at {at}"
    note = "The checkpoint is the non-reentrant one then: the same values, and the gradients that a call without "
    note += "checkpoint gives."
    told = f"Call {feature.instead} before the training, if the reentrant form has to stay"
    why = "What goes into the first layer then requires gradients, so that the checkpoint records it."
    args = {"place": place(switch.call), "name": feature.keyword, "value": feature.value}
    return [Remedy("set_keyword", title, "safe", note, args), Remedy("require_input_grads", told, "display", why)]


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
    title = f"hand `{callee}` a copy of `{name}`, at {where(frame)}"
    note = f"It then writes into the copy: `{name}` keeps its values, which the write has changed."
    return [*remedy_at(frame_of(sources, frame, shown[0]), "clone_expression", title, "unsafe", note)]


def _leads_to(node: ast.expr, name: str) -> bool:
    """Whether an expression is the named tensor, or methods, attributes, parts of it: ``noise.detach()[0]``."""
    while ast.unparse(node) != name:
        if is_method_call(node):
            node = node.func
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True
