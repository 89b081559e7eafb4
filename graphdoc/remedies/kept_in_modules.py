"""States that many modules of one model keep, each under the same name: cut in one loop over the modules."""

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
