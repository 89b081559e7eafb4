"""Telling ``module.requires_grad = False``, which sets an attribute that nothing reads and switches no parameter."""

from __future__ import annotations

import ast

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.freezing import switches
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded


def flag_of_module(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``flag-of-module`` sign; None where the program reads such a flag, which is its own then, or
    where no statement sets it on a module of that name."""
    names, value = list(sign.facts["names"]), bool(sign.facts["value"])
    nodes = [(file, n) for file in sources for n in ast.walk(bindings.tree(sources, file) or ast.Module([], []))]
    if any(_reads(n, names) for _, n in nodes):
        return None
    found = [(file, n) for file, n in nodes if isinstance(n, ast.Assign) and _sets(n, names) and switches(n) is value]
    if len(found) != 1:
        return None
    file, node = found[0]
    at = bindings.frame_of(sources, file, node)
    module = bindings.text_of(node.targets[0].value)  # type: ignore[attr-defined]
    whose, stepping = folded(sign.parameters) or "its parameters", optimizer_of(optimizers, sign)
    done = f"{stepping} steps {whose}" if not value else f"{whose} stay frozen"
    return Finding(
        0.92,
        Proof.SOURCE.confidence,
        f"`{module}.requires_grad = {value}` {'freezes' if not value else 'unfreezes'} nothing: "
        + ("its parameters are trained" if not value else "its parameters stay frozen"),
        "A module has no flag `requires_grad`; its parameters have. Python stores the attribute and nothing reads it. "
        "`requires_grad_()`, with an underscore, switches all parameters of a module.",
        distinct(
            (span("cause", at, "sets an attribute of the module", sources), *span_of("related", sign.stack, done))
        ),
        remedies=(
            Remedy(
                "call_flag",
                f"Call `{module}.requires_grad_({value})`",
                "unsafe",
                f"{'Less' if not value else 'More'} is trained than before, as the line says.",
                {"place": place(at)},
            ),
        ),
        because=f"after {sign.count} steps of {stepping} the module's attribute is {value}, and `requires_grad` is "
        f"{not value} for all parameters in it",
    )


def _sets(node: ast.Assign, names: list[str]) -> bool:
    target = node.targets[0]
    return isinstance(target, ast.Attribute) and target.attr == "requires_grad" and _last(target.value) in names


def _reads(node: ast.AST, names: list[str]) -> bool:
    """``self.requires_grad``, ``self.backbone.requires_grad`` as values."""
    if not isinstance(node, ast.Attribute) or node.attr != "requires_grad" or not isinstance(node.ctx, ast.Load):
        return False
    return _last(node.value) in (*names, "self")


def _last(node: ast.expr) -> str:
    return bindings.text_of(node).rpartition(".")[2]
