"""States that many modules of one model, or entries of one list, keep under the same name: cut in one loop."""

from __future__ import annotations

from graphdoc.evidence import Frame, Holder, Parameter
from graphdoc.finding import Remedy
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.remedies.lost_gradient import stops_there

FEW = 4
"""States that are named one by one: more of them are one loop."""


def detach_in_modules(program: Program, reuse: Reuse, call: Frame, anchor: Frame, step: Frame) -> list[Remedy]:
    """One loop behind a statement; none where a carried value is not kept by a module that the function can name."""
    models: dict[str, None] = {}
    kept: dict[tuple[str, str], None] = {}
    for c in reuse.carries:
        here = [h for h in c.tensor.holders if program.reaches_in(h, call)]
        found = next((f for h in here if (f := _of_module(program.parameters, h)) is not None), None)
        if found is None:
            return []
        models[found[0]] = None
        kept[found[1:]] = None
    if len(models) != 1:
        return []
    model = next(iter(models))
    names = ", ".join(f"`{name}`" for name, _ in kept)
    return [
        Remedy(
            "detach_in_modules",
            f"detach {names} of the modules of `{model}` once each iteration, behind {where(step)}",
            "unsafe",
            stops_there(program.evidence.fresh_reaches, reuse),
            {"after": place(anchor), "model": model, "kept": [list(k) for k in kept]},
        )
    ]


def detach_in_entries(program: Program, reuse: Reuse, call: Frame, anchor: Frame, step: Frame) -> list[Remedy]:
    """The same for the entries of a list that the function can name, such as the layers of a cache; none where a
    carried value is kept elsewhere, or an entry of the list was not seen with one."""
    lists: set[str] = set()
    kept: dict[str, set[int]] = {}
    for c in reuse.carries:
        found = [f for h in c.tensor.holders if program.reaches_in(h, call) and (f := _of_entry(h)) is not None]
        if not found:
            return []
        for entries, index, attribute in found:
            lists.add(entries)
            kept.setdefault(attribute, set()).add(index)
    every = set().union(*kept.values())
    if len(lists) != 1 or any(found != every for found in kept.values()) or every != set(range(len(every))):
        return []
    entries = lists.pop()
    names = " and ".join(f"`{name}`" for name in kept)
    return [
        Remedy(
            "detach_in_entries",
            f"detach {names} of each entry of `{entries}` once each iteration, behind {where(step)}",
            "unsafe",
            stops_there(program.evidence.fresh_reaches, reuse),
            {"after": place(anchor), "entries": entries, "kept": list(kept)},
        )
    ]


def _of_entry(holder: Holder) -> tuple[str, int, str] | None:
    """The list, the position in it, and the attribute of the entry there that holds a tensor; None for others."""
    if len(holder.steps) < 3:
        return None
    *path, entry, last = holder.steps
    if entry.kind != "index" or last.kind != "attribute" or not last.key.isidentifier():
        return None
    if path[0].kind != "name" or any(s.kind != "attribute" for s in path[1:]):
        return None
    return ".".join(s.key for s in path), int(entry.key), last.key


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
