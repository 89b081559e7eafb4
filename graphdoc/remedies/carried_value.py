"""Ways to keep the numbers of a carried or stored value without its graph, wherever it goes on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, Holder, Parameter, SourceTexts
from graphdoc.finding import Remedy, edit_at, remedy_at, together
from graphdoc.program import carried_names, expression_values
from graphdoc.program.bindings import everywhere, frame_of, function_at, is_one_container, scope_at, source_at, tree
from graphdoc.program.carried_names import Carried
from graphdoc.program.container_entries import element_of, kept_name, statements, user_frames
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program, of_one_step
from graphdoc.program.reuse import Reuse, Role
from graphdoc.program.spans import code_at, in_function, inside, is_at, loop_of, node_loop_of, place, user_line, where
from graphdoc.remedies.constant_value import constant_at_use, constant_note, ends_a_way, tuple_of
from graphdoc.remedies.fix_places import frame_at, left_open
from graphdoc.remedies.merged_backward import merge
from graphdoc.remedies.sum_of_rounds import (
    detach_before_use,
    detach_behind_renewal,
    detach_carried,
    renewed_by_others,
    renewed_outside,
    start_before,
    started_after_update,
    stops_there,
    sum_started_anew,
)
from graphdoc.source.module import Source, each
from graphdoc.source.paths import covers, is_attribute, pairs, targets_of, with_items
from graphdoc.source.scopes import fresh_name, parameters
from graphdoc.story.older_graph import aliases, is_entry
from graphdoc.story.wording import gathered, listing

# A value that each round was to begin with, and that goes on from the one before: its start belongs into the loop.


def begun_anew(program: Program, reuse: Reuse, call: Frame, paths: list[str]) -> list[Remedy]:
    """Start plain names anew in each round of the loop around a backward call.

    Proposed where a cut would leave the loss nothing to train: weights that are adapted to a task, starting from those
    of the model, are what this one trains the model through; and where each round only adds to the value.

    Args:
        call: the frame of the backward call in the function that has the loop.
        paths: the names that carry the values on there.
    """
    loop = loop_of(program.sources, call)
    if loop is None or reuse.lifetime is not Lifetime.RECURS or not (reuse.adds_up or reuse.learns_by_it_alone):
        return []
    found = [start_before(program.sources, loop, path) if path.isidentifier() else None for path in paths]
    begun = [s for s in found if s is not None]
    if len(begun) < len(paths):
        return []
    starts = [frame_of(program.sources, loop, s) for s in begun]
    one = reuse.adds_up and len(paths) == 1
    after = started_after_update(program, call, paths[0], begun[0].value) if one else []
    shown = ", ".join(f"`{p}`" for p in paths[:4])
    lines = " and ".join(dict.fromkeys(where(s) for s in starts))
    title = f"start {shown} again in each round: move {lines} into the loop"
    note = "Each round starts from what that line makes, and no longer from the result of the round before."
    args = {"places": [place(s) for s in starts], "anew": True, "loop": place(call)}
    return [*after, Remedy("move_into_loop", title, "unsafe", note, args)]


def begun_as_first(program: Program, reuse: Reuse, by_method: bool) -> list[Remedy]:
    """Let states of which the next ones are made begin in each iteration as they did in the first, behind the step: by
    the method that their class has for that and the training never calls, or as ``None``.

    Where the program does so in a training loop itself, it has said when they begin anew.
    """
    frames = user_frames(reuse.failing.stack if reuse.failing else [])
    for call in frames if all(c.recurrent for c in reuse.carries) else ():
        paths = [path for path, _ in _paths_in(program, reuse, call)]
        names = [_reset_of(program.sources, frames, p) for p in paths] if by_method else []
        if by_method and all(names):
            owners = (with_items(p.rpartition(".")[0]) for p in paths)
            texts = list(dict.fromkeys(f"{o}.{name}()" for o, name in zip(owners, names, strict=True)))
            title = f"call {listing(f'`{text}`' for text in texts)}"
        elif not by_method and all(_is_none_but_once(program.sources, path) for path in paths):
            texts = [" = ".join([*map(with_items, paths), "None"])]
            title = f"set {listing(f'`{p}`' for p in paths)} to `None` again"
        else:
            continue
        if paths:
            anchor, step = expression_values.behind_the_step(program.sources, program.evidence.events, call)
            edits = [edit_at("add_statement", anchor, statement=text) for text in texts]
            note = "Each iteration begins as the first one did; nothing is carried into the next."
            return together(edits, f"{title} each iteration, after {where(step)}", "unsafe", note)
    return []


def _reset_of(sources: SourceTexts, frames: list[Frame], path: str) -> str:
    """The method that gives an attribute, and nothing but attributes, the values that ``__init__`` gives them; empty
    where a function of the failing call's stack calls it, or a function that does."""
    name = path.rpartition(".")[2]
    found: set[str] = set()
    for _, owner in everywhere(sources, ast.ClassDef):
        methods = [m for m in owner.body if isinstance(m, ast.FunctionDef)]
        begins = {given for m in methods if m.name == "__init__" for given in _given(m)}
        if any(target == f"self.{name}" for target, _ in begins):
            alike = {
                m.name for m in methods if m.name != "__init__" and len(parameters(m)) == 1 and _only(m, begins, name)
            }
            found = alike if not found else found & alike
            if not alike:
                return ""
    if len(found) != 1:
        return ""
    method = found.pop()
    through = {f.name for _, f in everywhere(sources, ast.FunctionDef) if expression_values.calls(f, {method})}
    within = (scope_at(sources, f) for f in frames)
    return "" if any(expression_values.calls(scope, {method, *through}) for scope in within) else method


def _only(method: ast.FunctionDef, begins: set[tuple[str, str]], name: str) -> bool:
    """Whether a method does nothing but to begin attributes anew, this one among them."""
    given = _given(method)
    body = [s for s in method.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return len(given) == len(body) and set(given) <= begins and any(target == f"self.{name}" for target, _ in given)


def _given(method: ast.FunctionDef) -> list[tuple[str, str]]:
    return [(ast.unparse(t), ast.unparse(v)) for s in statements(method) for t, v in pairs(s)]


def _is_none_but_once(sources: SourceTexts, path: str) -> bool:
    """Whether an attribute is ``None`` when its object is made, and one statement alone gives it other values.

    Not where something is done only if it ``is not None``: that asks for what the iteration before has left.
    """
    owner, _, name = path.rpartition(".")
    begins, others = False, 0
    for file in sources if owner else ():
        for test in each(tree(sources, file), ast.Compare):
            if isinstance(test.ops[0], ast.IsNot) and is_attribute(test.left, name):
                return False
        for function in each(tree(sources, file), ast.FunctionDef):
            for s in statements(function):
                given = [ast.unparse(v) for t, v in pairs(s) if is_attribute(t, name)]
                if given == ["None"] and function.name == "__init__":
                    begins = True
                else:
                    others += any(is_attribute(t, name) for t in targets_of(s))
    return begins and others == 1


# Working on a copy of data that outlive the pass, where a pass writes its results, graph and all, into them.

_KEPT = "whether the data are to keep what a pass writes into them, no run tells"


def copy_of_entry(reuse: Reuse) -> list[Remedy]:
    """Work on a copy of an entry instead of writing this pass's results, graph and all, into the data itself."""
    found = next(iter(aliases(reuse)), None)
    what, left = ("entry", "") if found is not None and is_entry(reuse.sources, found) else ("data", _KEPT)
    note = "The data keep their values; each pass writes its results, graph and all, into a copy of its own."
    title = f"take a copy of the {what}, at {where(found)}"
    return [replace(r, open=left) for r in remedy_at(found, "clone_expression", title, "unsafe", note, caller=True)]


# A state that one statement reads from an attribute and binds anew, cut where the statement takes it up again.


def detach_fed_back(reuse: Reuse) -> list[Remedy]:
    """For a value that nobody holds any more, made and taken up by one line that was reached from several places."""
    lines: list[tuple[Frame, list[str]]] = []
    for c in reuse.values:
        made, used = user_line(c.made), user_line(c.taken)
        kept = carried_names.fed_back(reuse.sources, used) if used is not None else []
        if used is None or made is None or c.holders or used.start != made.start or not kept:
            return []
        lines.append((used, kept))
    edits = [edit_at("detach_expression", at, operands=[[name, "tensor"] for name in kept]) for at, kept in lines]
    names = dict.fromkeys(name for _, kept in lines for name in kept)
    at, them = ", ".join(where(f) for f, _ in lines[:1]), "them" if len(names) > 1 else "it"
    title = f"detach {listing(f'`{n}`' for n in names)} where {at} takes {them} up again"
    note = "The values go on into the next pass; gradients stop at each run of that line."
    return together(edits, title, "unsafe", note)


# A state that a generator carries from one of its rounds to the next: cut where it goes on, behind the yield.


def detach_behind_yield(program: Program, reuse: Reuse) -> list[Remedy]:
    """Detach the names that a generator binds anew in each round: its user has run backward when the round goes on."""
    paths: list[tuple[str, str]] = []
    at: list[Frame] = []
    for c in reuse.carries:
        if c.carried_on is None:
            return []
        line, path = c.carried_on
        behind, structure = _yield_of(program.sources, line), _value_made(program, c, line)
        if behind is None or not isinstance(structure, str) or at not in ([], [behind]):
            return []
        at = [behind]
        paths += [(path, structure)] if (path, structure) not in paths else []
    return detach_carried(reuse, paths, at, f"once each round, after the yield at {where(next(iter(at), None))}")


def _yield_of(sources: SourceTexts, frame: Frame) -> Frame | None:
    """The statement that hands out a value in the loop around a place, and in every round of it."""
    loop = node_loop_of(sources, frame)
    body = [s for s in (loop.body if loop is not None else ()) if isinstance(s, ast.Expr | ast.Assign)]
    yielding = [s for s in body if isinstance(s.value, ast.Yield)]
    return frame_of(sources, frame, yielding[-1]) if yielding else None


# States that many modules of one model, or entries of one list, keep under the same name: cut in one loop.

FEW = 4
"""States that are named one by one: more of them are one loop."""


def detach_in_one_loop(program: Program, reuse: Reuse, call: Frame, anchor: Frame, step: Frame) -> list[Remedy]:
    """One loop behind a statement, over the modules of a model or the entries of a list; none where a carried value is
    kept by none that the function can name."""
    held = [[h for h in c.holders if program.reaches_in(h, call)] for c in reuse.carries]
    when, note = f"once each iteration, after {where(step)}", stops_there(reuse)
    out: list[Remedy] = []
    source = source_at(program.sources, anchor)
    model, of_modules = _in_modules(program.parameters, held)
    if of_modules:
        told = ", ".join(f"`{name}`" for name, _ in of_modules)
        title = f"detach {told} of the modules of `{model}` {when}"
        text = over_modules(source, model, of_modules)
        out += remedy_at(anchor, "add_statement", title, "unsafe", note, statement=text)
    entries, kept = _in_entries(held)
    if kept:
        holder = entries.removesuffix(_VALUES)
        last = holder.rpartition(".")[2]
        named = last.removesuffix("s") if last.endswith("s") and last.isidentifier() else "entry"
        one = fresh_name(source, named, "kept")
        lines = [f"for {one} in {entries}:", *(f"    {one}.{k} = {one}.{k}.detach()" for k in kept)]
        title = f"detach {listing(f'`{k}`' for k in kept)} of each entry of `{holder}` {when}"
        out += remedy_at(anchor, "add_statement", title, "unsafe", note, statement="\n".join(lines))
    return out


def over_modules(source: Source, model: str, kept: list[tuple[str, str]]) -> str:
    """A loop that gives each state of these names with a graph its detached value, wherever below a model it stands.
    Parameters and plain values of the same name have no graph, and are left alone."""
    module, value = fresh_name(source, "module", "one_module"), fresh_name(source, "kept", "kept_value")
    name = fresh_name(source, "name", "its_name")
    lines = [f"for {module} in {model}.modules():"]
    for attribute, sort in kept:
        inner, entry = ("    ", f"[{name}]") if sort == "dict" else ("", "")
        if entry:
            lines.append(f'    for {name}, {value} in getattr({module}, "{attribute}", {{}}).items():')
        else:
            lines.append(f'    {value} = getattr({module}, "{attribute}", None)')
        lines.append(f"{inner}    if {{torch.is_tensor}}({value}) and {value}.grad_fn is not None:")
        lines.append(f"{inner}        {module}.{attribute}{entry} = {value}.detach()")
    return "\n".join(lines)


def _in_modules(parameters: list[Parameter], held: list[list[Holder]]) -> tuple[str, list[tuple[str, str]]]:
    """One model, and what its modules keep under which names: a tensor, or a dict of some."""
    found = [next((f for h in here if (f := _of_module(parameters, h)) is not None), None) for here in held]
    models = {f[0] if f is not None else "" for f in found}
    if len(models) != 1 or "" in models:
        return "", []
    return models.pop(), list(dict.fromkeys(f[1:] for f in found if f is not None))


def _in_entries(held: list[list[Holder]]) -> tuple[str, list[str]]:
    """One list or dict, such as the layers of a cache, as a loop runs over its entries, and what each entry keeps: all
    were seen with each value, and those of a dict are of one class."""
    found = [[f for h in here if (f := _of_entry(h)) is not None] for here in held]
    lists = {(entries, cls) for here in found for entries, _, cls, _ in here}
    kept: dict[str, set[str]] = {}
    for _, at, _, attribute in (f for here in found for f in here):
        kept.setdefault(attribute, set()).add(at)
    every = set().union(*kept.values())
    if len(lists) != 1 or not all(found) or any(seen != every for seen in kept.values()):
        return "", []
    entries, _ = lists.pop()
    whole = entries.endswith(_VALUES) or every == {str(i) for i in range(len(every))}
    return (entries, list(kept)) if whole else ("", [])


_VALUES = ".values()"


def _of_entry(holder: Holder) -> tuple[str, str, str, str] | None:
    """The entries of a list or dict, where among them and of which class one is, and the attribute of it that holds a
    tensor; None for others."""
    if len(holder.steps) < 3:
        return None
    *path, entry, last = holder.steps
    if entry.kind not in ("index", "key") or last.kind != "attribute" or not last.key.isidentifier():
        return None
    if path[0].kind != "name" or any(s.kind != "attribute" for s in path[1:]):
        return None
    keyed = entry.kind == "key"  # which further keys there are is not known: they go by the class of these
    entries = ".".join(s.key for s in path) + (_VALUES if keyed else "")
    return entries, entry.key, entry.type if keyed else "", last.key


def _of_module(parameters: list[Parameter], holder: Holder) -> tuple[str, str, str] | None:
    """The model, the attribute of one of its modules that holds a tensor, and whether in a dict; None for others."""
    steps = [s.kind for s in holder.steps]
    inner = 1 if steps and steps[-1] == "key" else 0
    path = holder.steps[: len(steps) - inner]
    if len(path) < 3 or path[0].kind != "name" or any(s.kind != "attribute" for s in path[1:]):
        return None
    if not path[-1].key.isidentifier() or (inner and path[-1].type != "dict"):
        return None
    for length in (1, 2):
        model = ".".join(s.key for s in path[:length])
        if len(path) > length + 1 and any(p.name.startswith(f"{model}.") for p in parameters):
            return model, path[-1].key, "dict" if inner else "tensor"
    return None


# A state that is reset in place, let go of its graph where it is reset.


def detach_at_reset(resets: list[expression_values.Reset], behind_step: list[Remedy]) -> list[Remedy]:
    """Detach in place in front of each reset; else once each iteration, behind the step."""
    edits = [edit_at("add_statement", r.frame, statement=f"{r.path}.detach_()", before=True) for r in resets]
    shown = ", ".join(f"`{r.path}`" for r in resets[:4])
    note = "The reset gives it new numbers: no gradient belongs to how the earlier ones were computed."
    if all(r.node is not None for r in resets):
        note = "No gradient came through the reset anyway, so every gradient stays as it was meant."
    title = f"detach {shown} before the reset, at {where(resets[0].frame)}"
    instead = "Gradients stop there; the values are those that the reset gives."
    return [*together(edits, title, "unsafe", note), *(replace(r, note=instead) for r in behind_step)]


# Ways to keep the numbers of a carried or stored value without its graph.


def from_carrying(program: Program, reuse: Reuse) -> list[Remedy]:
    """For a value that goes from one iteration to the next: cut once in each, behind the step where that can be."""
    if resets := expression_values.resets_of(program.evidence, reuse.carries, reuse.failing):
        return detach_at_reset(resets, detach_behind_step(program, reuse))
    kept = detach_where_kept(program, reuse)
    read = any(_read_on(program.sources, edit) for r in kept for edit in r.args["edits"])
    at_use = constant_at_use(program, reuse.carries, constant_note(reuse))
    by_method = begun_as_first(program, reuse, by_method=True)
    with_none = [] if by_method else begun_as_first(program, reuse, by_method=False)
    # What the pass itself reads on under the name that keeps it loses its gradient where it is kept.
    ways = [
        *(merge(reuse) if of_one_step(program, reuse) else []),
        *sum_started_anew(program, reuse),
        *copy_of_entry(reuse),
        *by_method,
        *detach_behind_step(program, reuse),
        *with_none,
        *detach_fed_back(reuse),
        *detach_behind_yield(program, reuse),
        *([*at_use, *kept] if read else [*kept, *at_use]),
    ]
    if reuse.role is Role.REFERENCE and reuse.fitted:
        ways = [replace(r, open="the loss then learns through its target alone") for r in ways]
    if by_method or with_none:
        ways = [left_open(r, "whether each iteration is to begin like the first one, no run tells") for r in ways]
    return ways


def _read_on(sources: SourceTexts, edit: dict[str, Any]) -> bool:
    """Whether the function that keeps a value goes on to compute with it under that name."""
    at = frame_at(edit)
    return any(carried_names.read_behind(sources, at, path) for path, _ in edit["args"]["targets"])


def detach_behind_step(program: Program, reuse: Reuse) -> list[Remedy]:
    """Cut everything that is carried once, behind the step, in the innermost function that can name all of it."""
    out: list[Remedy] = []
    line = program.driver
    between = False
    for call in user_frames(reuse.failing.stack if reuse.failing else []):
        if line is not None and is_at(call, line):
            # Behind this line all batches are done: what is called for each of them is the place.
            return [*out, *_detach_in_batch(program, reuse)]
        if renewed_outside(reuse, call):
            between = True
            continue
        if _around_both(program, reuse, call):
            break  # behind this call nothing is carried any further
        paths = _paths_in(program, reuse, call)
        anchor, step = expression_values.behind_the_step(program.sources, program.evidence.events, call)
        if not between and (len(paths) > FEW or not paths):
            out += detach_in_one_loop(program, reuse, call, anchor, step)
        if not paths:
            continue
        paths += [p for p in _held_in(program, call, paths) if p not in paths]
        if any(expression_values.started_again(program.sources, call, anchor, p) for p, _ in paths):
            continue
        made = [in_function(c.made.stack, call) for c in reuse.carries if c.consumer < 0]
        if any(at is None or at.line > anchor.line for at in made):
            continue  # made behind the step: it is cut where it is kept
        holders = [h for c in reuse.carries for h in c.holders]
        if all(_carrier(program.sources, call, h) == h.base for h in holders):
            out += begun_anew(program, reuse, call, [p for p, _ in paths])
        if between:
            out += detach_behind_renewal(program, reuse, call, anchor, paths)
            continue
        if renewed_by_others(program, reuse, call):
            out += detach_before_use(program, reuse, call, paths)
        kept = [_in_its_container(program.sources, call.file, *p) for p in paths]
        when = f"once each iteration, after {_verb(program.sources, anchor, call)} at {where(step)}"
        out += detach_carried(reuse, kept, [anchor], when)
    return out


def _around_both(program: Program, reuse: Reuse, call: Frame) -> bool:
    """Whether one run of this line has made both the call that frees the graph and the one that fails: no loop is
    around it, nor around the lines that it was called by."""
    if reuse.failing is None or reuse.freeing is None or call not in reuse.failing.stack:
        return False
    outer = reuse.failing.stack[: reuse.failing.stack.index(call) + 1]
    loops = (loop_of(program.sources, f) for f in outer)
    inside = len(outer) < len(user_frames(reuse.failing.stack))
    return inside and reuse.freeing.stack[: len(outer)] == outer and all(f.user for f in outer) and not any(loops)


def _in_its_container(sources: SourceTexts, file: str, path: str, structure: Any) -> list[Any]:
    """A path with what is carried there; the third is True where the container has to stay the one that it is."""
    kept = isinstance(structure, dict) and bool({"list", "dict"} & set(structure))
    return [path, structure, True] if kept and is_one_container(sources, file, path) else [path, structure]


def _detach_in_batch(program: Program, reuse: Reuse) -> list[Remedy]:
    """Cut behind the forward, in the function of the user's that a package calls for each batch, where it can name it.

    The loss is computed by then and keeps its graph; what the function returns must not be made by that statement.
    """
    paths: list[list[Any]] = []
    anchor: Frame | None = None
    for c in reuse.values:
        frames = inside(program.driver, c.taken.stack) if c.taken is not None else []
        # What is computed in the batch's function itself is cut where it is kept.
        scope = function_at(program.sources, frames[0]) if len(frames) > 1 else None
        owner = next((s for s in scope.body if covers(s, frames[0].line)), None) if scope is not None else None
        if owner is None or scope is None or isinstance(owner, ast.Return) or owner is scope.body[-1]:
            return []
        cls = frames[0].function.rpartition(".")[0]
        own = (edit for edit, at in _assignments(c) if at.function.rpartition(".")[0] == cls)
        found = next((edit["args"]["targets"][0] for edit in own), None)
        if found is None or not found[0].startswith("self."):
            return []
        paths += [found] if found not in paths else []
        at = frame_of(program.sources, frames[0], owner)
        anchor = at if anchor is None or at.line > anchor.line else anchor
    if anchor is None:
        return []
    when = f"once each batch, in `{anchor.function}` after {where(anchor)}"
    return detach_carried(reuse, paths, [anchor], when, unit="batch")


def _verb(sources: SourceTexts, anchor: Frame, call: Frame) -> str:
    """What the line does after which the cut comes; a call of the user's own is just that."""
    code = code_at(sources, anchor)
    if anchor is call:
        return "the backward call" if "backward(" in code or "grad(" in code else "the call"
    return "the optimizer step" if ".step(" in code else "the call"


def _paths_in(program: Program, reuse: Reuse, call: Frame) -> list[tuple[str, Any]]:
    paths: list[tuple[str, Any]] = []
    for c in reuse.carries:
        holders = c.could_carry  # what merely looks on would be cut in vain
        here = [h for h in holders if program.reaches_in(h, call) and h.structure is not None]
        if not here:
            found = _carried_in(program, c.carried_on, call)
            if found is None:
                return []
            paths += [found] if found not in paths else []
            continue
        # The function's own names before globals; what is kept on an object before a plain name; then the shortest.
        best = min(here, key=lambda h: (h.function != call.function, "." not in h.base, len(h.base)))
        # Of a list of layers, all of which keep a state under this name, none is the only one.
        alike = [best] if best.exact else [h for h in here if _kind_of(h.base) == _kind_of(best.base)]
        for h in sorted(alike, key=lambda h: (len(h.base), h.base)):
            base = _carrier(program.sources, call, h)
            if (base, h.structure) not in paths:
                paths.append((base, h.structure))
    return paths


def _carrier(sources: SourceTexts, call: Frame, holder: Holder) -> str:
    """What goes on to the next round of what a holder holds, by name."""
    plain = carried_names.is_local(holder, call) and len(holder.steps) == 1
    return carried_names.carrier_of(sources, call, holder.base) if plain else holder.base


def _carried_in(program: Program, found: tuple[Frame, str] | None, call: Frame) -> tuple[str, Any] | None:
    """The name under which the function of the call carries a value on, and what the name holds."""
    if found is None or not found[0].in_function_of(call):
        return None
    structure = expression_values.known(program, call.file, call.function, found[1])
    return (found[1], structure) if structure is not None and structure is not expression_values.UNKNOWN else None


def _held_in(program: Program, call: Frame, paths: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What the same object, or its sibling in a list of layers, keeps besides with a graph from before: the next
    to fail."""
    owners = {_owner(p) for p, _ in paths if "." in p}
    held = [h for tensor in program.evidence.held_tensors for h in tensor.holders if program.reaches_in(h, call)]
    found = [(h.base, h.structure) for h in held if h.structure is not None and _owner(h.base) in owners]
    return [one for i, one in enumerate(found) if one not in found[:i]]


def _owner(path: str) -> str:
    """What an attribute belongs to; the same for all entries of one list of objects."""
    return _kind_of(path.rpartition(".")[0])


def _kind_of(path: str) -> str:
    """A path without its positions: the same for all entries of one list of objects."""
    return re.sub(r"\.\d+(?=\.|$)|\[\d+\]", ".*", path)


def detach_where_kept(program: Program, reuse: Reuse) -> list[Remedy]:
    """Cut where the value is assigned or stored."""
    edits: list[dict[str, Any]] = []
    whole: list[Frame] = []
    for c in reuse.values:
        edit, frame = next(_assignments(c), None) or _where_stored(program, c)
        if edit is not None and edit not in edits:
            edits.append(edit)
            whole += [frame] if _binds_no_more(program.sources, edit, frame) else []
    if not edits or ends_a_way(program, whole):
        return []
    at = listing(gathered(where(frame_at(edit)) for edit in edits))
    what = "detach the value where it is kept" if len(edits) == 1 else "detach the values where they are kept"
    title = f"{what}, at {at}"
    note = "What is kept has no graph any more; the forward pass that computed it stays as it is."
    return [Remedy("several", title, "unsafe", note, {"edits": edits})]


def _binds_no_more(sources: SourceTexts, edit: dict[str, Any], at: Frame) -> bool:
    """Whether all that an assignment binds is cut by this edit of it."""
    return {name for name, *_ in edit["args"]["targets"]} == {*carried_names.bound_names(sources, at)}


def _where_stored(program: Program, carry: Carried) -> tuple[dict[str, Any] | None, Frame]:
    """For a value that nothing holds any more: the statement that stored it under the name by which it was taken up."""
    stored = carry.stored_on
    structure = _value_made(program, carry, stored[0]) if stored is not None else None
    if stored is None or structure is None:
        return None, Frame("", 0)
    return edit_at("detach_assigned", stored[0], targets=[[stored[1], structure]]), stored[0]


def _value_made(program: Program, carry: Carried, at: Frame) -> Any:
    """The structure of what the function of a place has made it as."""
    made = next((f for f in carry.making if f.function == at.function), None)
    return expression_values.value_at(program, carry.made.stack, made) if made is not None else None


def _assignments(c: Carried) -> Iterator[tuple[dict[str, Any], Frame]]:
    """A cut in each of the assignments that keep a value under the names of its holders, and where that stands."""
    for holder in c.holders:
        for frame in c.kept_at([holder])[:1]:
            last, names = kept_name(holder), carried_names.bound_names(c.run.sources, frame)
            target = next((n for n in names if n.split("[")[0].rsplit(".", 1)[-1] == last), None)
            structure = _structure_at(holder, target, last) if target is not None else None
            if structure is not None:
                yield edit_at("detach_assigned", frame, targets=[[target, structure]]), frame


def _structure_at(holder: Holder, target: str, last: str) -> Any:
    """What an assignment to this target binds, as far as the path of the held tensor tells; None where it does not."""
    steps = holder.steps
    at = max((i for i, s in enumerate(steps) if s.key == last and s.kind in ("name", "attribute")), default=-1)
    if at < 0:
        return None
    inner = target.count("[")
    rest = steps[at + 1 + inner :]
    if not rest:
        return "tensor" if len(steps) >= at + 1 + inner else None
    base = next((i for i, s in enumerate(steps) if s.kind not in ("name", "attribute")), len(steps))
    if at + 1 == base:
        return element_of(holder.structure, inner)
    return tuple_of(steps[at + inner].type) if all(s.kind == "index" for s in rest) and len(rest) == 1 else None
