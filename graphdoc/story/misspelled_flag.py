"""Telling ``p.require_grad = False``: an attribute that nothing reads, beside the flag that it was to be."""

from __future__ import annotations

import ast

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded

FLAG = "requires_grad"


def misspelled_flag(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``misspelled-flag`` sign; None where the program reads this attribute, or sets it both ways."""
    name, value = str(sign.facts["attribute"]), bool(sign.facts["value"])
    found: list[tuple[str, ast.Assign]] = []
    for file in sources:
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
                return None
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(node, ast.Assign) or not isinstance(target, ast.Attribute) or target.attr != name:
                continue
            if not isinstance(node.value, ast.Constant) or node.value.value is not value:
                return None
            found.append((file, node))
    if not found:
        return None
    places = [bindings.frame_of(sources, file, node) for file, node in found]
    whose, stepping = folded(sign.parameters) or "the parameters", optimizer_of(optimizers, sign)
    text = bindings.text_of(found[0][1].targets[0])
    edits = [{"kind": "set_flag", "args": {"place": place(at), "attribute": FLAG}} for at in places]
    remedy = Remedy("set_flag", f"spell it `{FLAG}`", "unsafe", _note(value), edits[0]["args"])  # type: ignore[arg-type]
    if len(edits) > 1:
        remedy = Remedy("several", f"spell each `{FLAG}`", "unsafe", _note(value), {"edits": edits})
    return Finding(
        0.92,
        Proof.SOURCE.confidence,
        f"`{text} = {value}` {'unfreezes' if value else 'freezes'} nothing: the flag is `{FLAG}`",
        f"A tensor has no flag `{name}`. Python stores the attribute, and nothing reads it.",
        distinct(
            (
                *(span("cause", at, "sets an attribute that nothing reads", sources) for at in places[:3]),
                *span_of("related", sign.stack, f"{whose} stay frozen" if value else f"steps {whose}", sources),
            )
        ),
        remedies=(remedy,),
        because=f"after {sign.count} steps of {stepping} that attribute is {value}, and `{FLAG}` is {not value} for "
        f"{whose}",
    )


def _note(value: bool) -> str:
    return f"{'More' if value else 'Less'} is trained than before, as the line says."
