"""Detach what the modules of a model keep, wherever below it they stand: one loop behind (or in front of) a statement.

``for module in model.modules(): …`` gives each state of these names that has a graph its detached value. Parameters and
plain values of the same name have none and are left alone.

Args:
    after: the place of the statement behind which it is done.
    before: in place of it, the statement in front of which it is done.
    model: the module, as the code there spells it.
    kept: list of ``[attribute, "tensor" | "dict"]``: what the attribute of such a module holds.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, anchored, required
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, torch_name

KIND = "detach_in_modules"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, anchor, behind = anchored(sources, args)
    torch = torch_name(source, anchor)
    module = fresh_name(source, "module", "one_module")
    value = fresh_name(source, "kept", "kept_value")
    name = fresh_name(source, "name", "its_name")
    lines = [f"for {module} in {required(args, 'model')}.modules():"]
    graph = f"if {torch.text}.is_tensor({value}) and {value}.grad_fn is not None:"
    for attribute, kind in required(args, "kept"):
        if kind == "dict":
            lines += [
                f'    for {name}, {value} in getattr({module}, "{attribute}", {{}}).items():',
                f"        {graph}",
                f"            {module}.{attribute}[{name}] = {value}.detach()",
            ]
        else:
            lines += [
                f'    {value} = getattr({module}, "{attribute}", None)',
                f"    {graph}",
                f"        {module}.{attribute} = {value}.detach()",
            ]
    if len(lines) < 2:
        raise CannotFix("no carried value was named")
    text = "\n".join(lines)
    return [*(insert_after if behind else insert_before)(source, anchor, [text]), *torch.edits]
