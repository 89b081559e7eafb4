"""Telling layers in plain containers of a module: ``parameters()`` does not find them, so no optimizer has them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.nested_containers import written_into
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded, listing

MOST_CAUSES = 3
"""Places that a reader is sent to."""


@dataclass(frozen=True)
class _Container:
    """One container, and the expression that is assigned to the attribute."""

    cls: str
    attribute: str
    of_parameters: bool
    file: str
    value: ast.expr
    levels: tuple[str, ...] = ("",)
    """What lies at each level of it, ``"dict"`` or ``"list"``, the container itself first."""
    within: tuple[tuple[ast.expr, int], ...] | None = ()
    """The containers that are written into it, with their levels; None where one of them is not found."""


def not_registered(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for an ``unregistered`` sign; None where no assignment is found that was meant otherwise."""
    names: list[str] = []
    found: list[_Container] = []
    for facts in sign.facts.get("classes") or [sign.facts]:
        mine = _containers(sources, facts)
        found += mine
        # Which of them lie in a container of which nothing is told is not known.
        told = {c.attribute for c in mine} == {c["attribute"] for c in facts["containers"]}
        names += (facts.get("names") or sign.parameters) if mine and told else []
    if not found:
        return None
    name, whose = optimizer_of(optimizers, sign), folded(sorted(set(names)))
    places = [bindings.frame_of(sources, c.file, c.value) for c in found]
    group = _group(found[0].of_parameters and len(found[0].levels) == 1, found[0].value)
    note = f"`parameters()` finds {whose or 'them'}: an optimizer that is given all of the module's trains them"
    args = [a for c in found for a in _edits(sources, c)]
    remedy = Remedy("module_list", f"make it an {group}", "unsafe", note, args[0])
    if len(args) > 1:
        edits = [{"kind": "module_list", "args": a} for a in args]
        what = f"make each an {group}" if len(found) > 1 else f"make it an {group}, and each container in it"
        remedy = Remedy("several", what, "unsafe", note, {"edits": edits})
    classes = dict.fromkeys(c.cls for c in found)
    attributes = listing(
        [f"{listing([f'`self.{c.attribute}`' for c in found if c.cls == cls])} of `{cls}`" for cls in classes]
    )
    one = len({(c.cls, c.attribute) for c in found}) == 1
    return Finding(
        0.93,
        "likely",  # that no optimizer holds them is seen; they may be kept out of ``parameters()`` on purpose
        f"{attributes} {'is' if one else 'are'} not registered: no optimizer holds {whose or 'what is in it'}",
        "A module knows the modules and parameters that are its attributes, and those in a ModuleList, ModuleDict, "
        "ParameterList or ParameterDict. It does not look into a list or dict.",
        distinct(
            (
                *(
                    span(
                        "cause" if number < MOST_CAUSES else "related",
                        at,
                        f"{_what(c, found)}: `{c.cls}.parameters()` finds nothing in it",
                        sources,
                    )
                    for number, (at, c) in enumerate(zip(places, found, strict=True))
                ),
                *span_of("related", sign.stack, "gives them gradients that nobody uses", sources),
            )
        ),
        remedies=() if any(c.within is None for c in found) else (remedy,),
        because=f"the loss gave {whose or 'them'} gradients in each of {sign.count} calls; {name} holds other "
        "parameters of the same model",
    )


def _containers(sources: SourceTexts, facts: dict[str, Any]) -> list[_Container]:
    """The containers of one class that were to be found by its ``parameters()``."""
    cls = str(facts["class"])
    short = cls.rpartition(".")[2]
    return [
        _Container(cls, str(c["attribute"]), bool(c["parameters"]), *at, *_within(sources, at, short, c))
        for c in facts["containers"]
        for at in _plain(assigned_in(sources, short, f"self.{c['attribute']}"))
        if (int(c["count"]) > 1 or _is_filled(sources, at[0], short, at[1], f"self.{c['attribute']}"))
    ]


def _within(
    sources: SourceTexts, at: tuple[str, ast.expr], cls: str, facts: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[tuple[ast.expr, int], ...] | None]:
    levels = tuple(facts.get("levels") or ("",))
    owner = next(o for o in _classes(sources, at[0], cls) if at[1] in ast.walk(o))
    inner = written_into(owner, f"self.{facts['attribute']}", at[1], len(levels))
    return levels, None if inner is None else tuple(inner)


def _edits(sources: SourceTexts, container: _Container) -> list[dict[str, Any]]:
    """What makes one container, and each in it, one that ``parameters()`` looks into."""
    last = len(container.levels) - 1
    return [
        {
            "place": place(bindings.frame_of(sources, container.file, value)),
            # What holds lists of parameters is a list of modules.
            "parameters": container.of_parameters and level == last,
            "mapping": container.levels[level] == "dict",
        }
        for value, level in ((container.value, 0), *(container.within or ()))
    ]


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
    owners = _classes(sources, file, cls)
    loops = [node for owner in owners for node in ast.walk(owner) if isinstance(node, ast.For)]
    return any(_fills(node, name) for loop in loops for node in ast.walk(loop))


def _fills(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return bindings.text_of(node.func) == f"{name}.append"
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and bindings.text_of(node.value) == name


def _what(container: _Container, found: list[_Container]) -> str:
    """What an assignment gives the attribute; of several, in the arms of an ``if`` perhaps, one has run."""
    alike = [c for c in found if (c.cls, c.attribute) == (container.cls, container.attribute)]
    return "a plain container" if len(alike) == 1 else "one of the plain containers that it may be given"


def _plain(assigned: list[tuple[str, ast.expr]]) -> list[tuple[str, ast.expr]]:
    """Of the values that a class assigns to an attribute, in the arms of an ``if`` perhaps, those that are written as a
    container; the only one, however it is written."""
    if len(assigned) < 2:
        return assigned
    written = ast.List | ast.ListComp | ast.Dict | ast.DictComp
    return [at for at in assigned if isinstance(at[1], written)] if len({file for file, _ in assigned}) == 1 else []


def _classes(sources: SourceTexts, file: str, cls: str) -> list[ast.ClassDef]:
    whole = ast.walk(bindings.tree(sources, file) or ast.Module([], []))
    return [node for node in whole if isinstance(node, ast.ClassDef) and node.name == cls]


def assigned_in(sources: SourceTexts, cls: str, name: str) -> list[tuple[str, ast.expr]]:
    """The values that the class assigns to this attribute, each with its file."""
    return [
        (file, node.value)
        for file in sources
        for owner in _classes(sources, file, cls)
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign) and any(bindings.text_of(t) == name for t in node.targets)
    ]
