"""Iterators of parameters: what can be gone through only once, and has a name by which it is used again."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Frame, Parameter, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.name_filters import lets_through

ITERATORS = {"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"}
"""Methods of a module that give a generator."""
_COPIES = {"list", "tuple", "iter", "sorted"}


@dataclass(frozen=True)
class OneShot:
    """``name`` is bound, by the expression at ``frame``, to an iterator over the parameters of ``module``, or over a
    ``part`` of them that a condition on their names chooses."""

    name: str
    module: str
    frame: Frame
    statement: Frame
    part: bool = False


def one_shot(sources: SourceTexts, parameters: list[Parameter], at: Frame, given: ast.expr | None) -> OneShot | None:
    """What this argument of a call at ``at`` names, where that is bound once, to an iterator that cannot be empty.

    That is told by the module: parameters of its own that require gradients are known, and nothing else is asked of
    them. So a list that is rightly empty (no layer of some kind, everything frozen) is not meant.
    """
    while isinstance(given, ast.Call) and bindings.dotted(given.func) in _COPIES and len(given.args) == 1:
        given = given.args[0]
    name = bindings.dotted(given) if given is not None else ""
    found = bindings.assignments(sources, at, name)
    if not name or len(found) != 1:
        return None
    statement, value = found[0]
    module = _module(value)
    if not module or not any(_kept(value, own) for own in _learning(parameters, module)):
        return None
    part = isinstance(value, ast.GeneratorExp) and not all(_asks_for_gradient(c) for c in value.generators[0].ifs)
    return OneShot(name, module, bindings.frame_of(sources, statement.file, value), statement, part)


def _module(value: ast.expr) -> str:
    """The module whose parameters this iterator gives, in the program's words; empty for any other expression."""
    if isinstance(value, ast.GeneratorExp) and len(value.generators) == 1:
        loop = value.generators[0]
        plain = isinstance(value.elt, ast.Name) and bindings.text_of(value.elt) in bindings.names_in(loop.target)
        return _module(loop.iter) if plain else ""
    if not isinstance(value, ast.Call):
        return ""
    function = bindings.dotted(value.func)
    if function == "filter" and len(value.args) == 2:
        test = value.args[0]
        return _module(value.args[1]) if isinstance(test, ast.Lambda) and _asks_for_gradient(test.body) else ""
    owner, _, method = function.rpartition(".")
    return owner if method in ITERATORS else ""


def _asks_for_gradient(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "requires_grad"


def _kept(value: ast.expr, own: str) -> bool:
    """Whether a generator's conditions surely let a trainable parameter through whose name in its module is ``own``."""
    if not isinstance(value, ast.GeneratorExp):
        return True
    loop = value.generators[0]
    pair = loop.target.elts if isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2 else []
    named = isinstance(loop.iter, ast.Call) and bindings.dotted(loop.iter.func).endswith(".named_parameters")
    variable = pair[0].id if named and pair and isinstance(pair[0], ast.Name) else ""
    return all(_asks_for_gradient(c) or lets_through(c, variable, own) is True for c in loop.ifs)


def _learning(parameters: list[Parameter], module: str) -> list[str]:
    """The names, within this module, of those of the run's parameters in it that require gradients."""
    last = module.rpartition(".")[2]
    found = []
    for p in parameters:
        if p.buffer or not p.requires_grad:
            continue
        if p.name.startswith(f"{module}."):
            found.append(p.name.removeprefix(f"{module}."))
        elif f".{last}." in f".{p.name}":
            found.append(f".{p.name}".rpartition(f".{last}.")[2])
    return found
