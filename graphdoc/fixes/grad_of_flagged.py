"""Ask only for the gradients of those inputs that require them; the others keep their place in the result, as None.

``grads = torch.autograd.grad(y, xs)`` becomes ``asked = list(xs)``, ``grads = torch.autograd.grad(y, [x for x in asked
if x.requires_grad])``, and behind it each gradient is put back where its input stands.

Args:
    place: the call of ``torch.autograd.grad``, whose result a plain assignment takes.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import copied, insert_after, insert_before, write, written
from graphdoc.source.paths import is_path
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name

KIND = "grad_of_flagged"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    given = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "inputs"), None)
    if last_name(node) != "grad" or given is None:
        raise CannotFix("no torch.autograd.grad with its inputs stands there")
    owner = source.parents.get(node)
    if not isinstance(owner, ast.Assign) or len(owner.targets) != 1 or not is_path(owner.targets[0]):
        raise CannotFix("its result is not simply assigned to one name")
    if isinstance(given, ast.ListComp | ast.GeneratorExp) and any(g.ifs for g in given.generators):
        raise CannotFix("the inputs are chosen already")
    asked, each = fresh_name(source, "asked", "asked_for"), fresh_name(source, "each", "one_asked")
    found, grads = fresh_name(source, "found", "found_grads"), owner.targets[0]
    back = f"{{grads}} = tuple(next({found}) if {each}.requires_grad else None for {each} in {asked})"
    taken = [written(source, f"{found} = iter({{grads}})", grads=grads), written(source, back, grads=grads)]
    return [
        *insert_before(source, owner, [written(source, f"{asked} = list({{given}})", given=copied(source, given))]),
        write(source, given, f"[{each} for {each} in {asked} if {each}.requires_grad]"),
        *insert_after(source, owner, taken),
    ]
