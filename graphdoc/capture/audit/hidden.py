"""Modules and parameters in a plain list or dict of a module, where ``parameters()`` does not find them."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from graphdoc.capture.places import is_users

MOST_CONTAINERS = 20
"""Lists and dicts of one module that are told."""


@dataclass
class Hidden:
    """What lies in plain containers of a module of class ``facts["class"]``.

    ``facts["containers"]`` has for each its ``attribute``, whether it holds ``parameters`` and not modules, and their
    ``count``: a list of a single one may be how a program keeps a network out of ``parameters()`` on purpose.
    """

    parameters: dict[int, Any]
    facts: dict[str, Any]
    """Further ``file`` and ``line``: where the class's ``__init__`` begins, which may be in no stack of the run."""


def unregistered(torch: Any, unheld: dict[int, Any], held: set[int]) -> Hidden | None:
    """The lists and dicts of modules, or of parameters, of one module, all of which are among ``unheld``; None where
    there are none. A module with a container of several comes before one with only single ones.

    Args:
        unheld: parameters that get gradients and are in no optimizer, by id.
        held: ids of those that are in one: a module with such parameters was given to it.
    """
    module = torch.nn.Module
    single: Hidden | None = None
    for owner in gc.get_objects():
        if module not in type(owner).__mro__ or not is_users(owner):
            continue
        within: dict[int, Any] = {}
        containers: list[dict[str, Any]] = []
        for name, value in list(owner.__dict__.items()):
            items = list(value.values() if type(value) is dict else value if type(value) in (list, tuple) else ())
            mine = _parameters_in(torch, items) if items and not name.startswith("_") else {}
            if mine and mine.keys() <= unheld.keys() and len(containers) < MOST_CONTAINERS:
                within.update(mine)
                plain = type(items[0]) is torch.nn.Parameter
                containers.append({"attribute": name, "parameters": plain, "count": len(items)})
        if not within or not is_given(owner, held, module):
            continue
        facts = {
            "class": type(owner).__qualname__,
            "containers": containers,
            "file": type(owner).__init__.__code__.co_filename,
            "line": type(owner).__init__.__code__.co_firstlineno,
        }
        if any(c["count"] > 1 for c in containers):
            return Hidden(within, facts)
        single = single or Hidden(within, facts)
    return single


def _parameters_in(torch: Any, items: list[Any]) -> dict[int, Any]:
    """The parameters of a container of modules, or of parameters, and of nothing else, by id."""
    if all(torch.nn.Module in type(v).__mro__ for v in items):
        return {id(p): p for v in items for p in inside(v)}
    return {id(p): p for p in items} if all(type(v) is torch.nn.Parameter for v in items) else {}


def is_given(owner: Any, held: set[int], module: type) -> bool:
    """Whether an optimizer holds other parameters of this module, or of one that contains it."""
    if any(id(p) in held for p in inside(owner)):
        return True
    around = [o for o in gc.get_objects() if module in type(o).__mro__ and owner in (o._modules or {}).values()]
    return any(id(p) in held for o in around for p in inside(o))


def inside(module: Any) -> list[Any]:
    """A module's parameters, without a method that a class may have made its own."""
    todo, seen, out = [module], {id(module)}, []
    for m in todo:
        out += [p for p in (m.__dict__.get("_parameters") or {}).values() if p is not None]
        children = [c for c in (m.__dict__.get("_modules") or {}).values() if c is not None and id(c) not in seen]
        seen.update(map(id, children))
        todo += children
    return out
