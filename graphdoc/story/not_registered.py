"""Telling layers in a plain list or dict of a module: ``parameters()`` does not find them, so no optimizer has them."""

from __future__ import annotations

import ast

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.signs import optimizer_of
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.wording import folded, listing


def not_registered(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for an ``unregistered`` sign; None where no assignment is found that was meant otherwise."""
    cls = str(sign.facts["class"])
    short = cls.rpartition(".")[2]
    found = [
        (str(c["attribute"]), bool(c["parameters"]), *at)
        for c in sign.facts["containers"]
        if (at := assigned_in(sources, short, f"self.{c['attribute']}")) is not None
        and (int(c["count"]) > 1 or _is_filled(sources, at[0], short, at[1], f"self.{c['attribute']}"))
    ]
    if not found:
        return None
    name, whose = optimizer_of(optimizers, sign), folded(sign.parameters)
    label = f"a plain container: `{cls}.parameters()` finds nothing in it"
    places = [bindings.frame_of(sources, file, value) for _, _, file, value in found]
    groups = [_group(plain, value) for _, plain, _, value in found]
    args = [{"place": place(at), "parameters": plain} for at, (_, plain, _, _) in zip(places, found, strict=True)]
    note = f"`parameters()` finds {whose or 'them'}: an optimizer that is given all of the module's trains them"
    remedy = Remedy("module_list", f"make it an {groups[0]}", "unsafe", note, args[0])
    if len(found) > 1:
        edits = [{"kind": "module_list", "args": a} for a in args]
        remedy = Remedy("several", f"make each an {groups[0]}", "unsafe", note, {"edits": edits})
    attributes = listing([f"`self.{attribute}`" for attribute, *_ in found])
    return Finding(
        0.93,
        "likely",  # that no optimizer holds them is seen; they may be kept out of ``parameters()`` on purpose
        f"{attributes} of `{cls}` {'is' if len(found) == 1 else 'are'} not registered: no optimizer holds "
        f"{whose or 'what is in it'}",
        "A module knows the modules and parameters that are its attributes, and those in a ModuleList, ModuleDict, "
        "ParameterList or ParameterDict. It does not look into a list or dict.",
        distinct(
            (
                *(span("cause", at, label, sources) for at in places),
                *span_of("related", sign.stack, "gives them gradients that nobody uses", sources),
            )
        ),
        remedies=(remedy,),
        because=f"the loss gave {whose or 'them'} gradients in each of {sign.count} calls; `{name}` holds other "
        "parameters of the same model",
    )


def _group(of_parameters: bool, value: ast.expr) -> str:
    kind = "Parameter" if of_parameters else "Module"
    return f"nn.{kind}{'Dict' if isinstance(value, ast.Dict | ast.DictComp) else 'List'}"


def _is_filled(sources: SourceTexts, file: str, cls: str, value: ast.expr, name: str) -> bool:
    """Whether a loop of the class makes what is in this container: it is to hold several, in this run there is one."""
    if isinstance(value, ast.ListComp | ast.DictComp):
        return True
    filled = value.elts if isinstance(value, ast.List) else value.keys if isinstance(value, ast.Dict) else [value]
    if filled:
        return False
    whole = ast.walk(bindings.tree(sources, file) or ast.Module([], []))
    owners = [node for node in whole if isinstance(node, ast.ClassDef) and node.name == cls]
    loops = [node for owner in owners for node in ast.walk(owner) if isinstance(node, ast.For)]
    return any(_fills(node, name) for loop in loops for node in ast.walk(loop))


def _fills(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return bindings.text_of(node.func) == f"{name}.append"
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and bindings.text_of(node.value) == name


def assigned_in(sources: SourceTexts, cls: str, name: str) -> tuple[str, ast.expr] | None:
    """The one value that the class assigns to this attribute."""
    found = [
        (file, node.value)
        for file in sources
        for owner in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(owner, ast.ClassDef) and owner.name == cls
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign) and any(bindings.text_of(t) == name for t in node.targets)
    ]
    return found[0] if len(found) == 1 else None
