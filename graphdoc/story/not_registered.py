"""Telling layers in a plain list or dict of a module: ``parameters()`` does not find them, so no optimizer has them."""

from __future__ import annotations

import ast

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.signs import optimizer_of
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.wording import folded


def not_registered(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for an ``unregistered`` sign; None where the assignment is not found."""
    cls, attribute = str(sign.facts["class"]), str(sign.facts["attribute"])
    short = cls.rpartition(".")[2]
    found = _assigned(sources, short, f"self.{attribute}")
    if found is None:
        return None
    file, value = found
    if sign.facts.get("single") and not _is_filled(sources, file, short, value, f"self.{attribute}"):
        return None  # `[network]` is how a program keeps a network out of `parameters()` on purpose
    at = bindings.frame_of(sources, file, value)
    of_parameters = bool(sign.facts["parameters"])
    kind = "Parameter" if of_parameters else "Module"
    group = f"nn.{kind}{'Dict' if isinstance(value, ast.Dict | ast.DictComp) else 'List'}"
    name, whose = optimizer_of(optimizers, sign), folded(sign.parameters)
    args = {"place": place(at), "parameters": of_parameters}
    note = f"`parameters()` finds {whose or 'them'}, so `{name}` trains them"
    label = f"a plain container: `{cls}.parameters()` finds nothing in it"
    return Finding(
        0.93,
        "certain",
        f"`self.{attribute}` of `{cls}` is not registered: no optimizer holds {whose or 'what is in it'}",
        "A module knows the modules and parameters that are its attributes, and those in a ModuleList, ModuleDict, "
        "ParameterList or ParameterDict. It does not look into a list or dict.",
        distinct(
            (
                span("cause", at, label, sources),
                *span_of("related", sign.stack, "gives them gradients that nobody uses", sources),
            )
        ),
        remedies=(Remedy("module_list", f"make it an {group}", "unsafe", note, args),),
        because=f"the loss gave {whose or 'them'} gradients in each of {sign.count} calls; `{name}` holds other "
        "parameters of the same model",
    )


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


def _assigned(sources: SourceTexts, cls: str, name: str) -> tuple[str, ast.expr] | None:
    """The one container that the class assigns to this attribute."""
    found = [
        (file, node.value)
        for file in sources
        for owner in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(owner, ast.ClassDef) and owner.name == cls
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign) and any(bindings.text_of(t) == name for t in node.targets)
    ]
    return found[0] if len(found) == 1 else None
