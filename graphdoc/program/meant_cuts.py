"""Cuts that are the author's word: an explicit ``detach`` or ``no_grad``, unless the run or the program contradicts it.

Whoever hands `model.parameters()` to an optimizer may well leave a part of the model as it is, and says so where it is
used. Whoever hands over `encoder.parameters()` by name, or in a group of its own, wants them to learn.
"""

from __future__ import annotations

import ast

from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import made
from graphdoc.program.signs import name_of


def is_meant(program: Program) -> bool:
    """Whether what is told as a lost graph was measured, was written as a cut, and nothing contradicts that."""
    sign = program.evidence.as_if
    if sign is None or not sign.facts.get("said") or sign.facts.get("apart"):
        return False
    return not _given_by_name(program, sign.parameters, name_of(program.optimizers, sign))


def _given_by_name(program: Program, parameters: list[str], optimizer: str) -> bool:
    """Whether the optimizer is made of a list in which the module that holds all of these is named by itself."""
    making = made(program.sources, optimizer) if optimizer else None
    if making is None:
        return False
    named = {bindings.text_of(n) for n in ast.walk(making.statement.value) if isinstance(n, ast.Name | ast.Attribute)}
    holders = [{name.rpartition(".")[0].rsplit(".", n)[0] for n in range(name.count("."))} for name in parameters]
    common = set.intersection(*holders) if holders else set()
    others = {n for o in program.optimizers if o.name == optimizer for n in o.parameters} - {*parameters}
    return any(h in named and not any(o.startswith(h + ".") for o in others) for h in common)
