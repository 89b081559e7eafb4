"""Modules and parameters in a plain list or dict of a module, where ``parameters()`` does not find them."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from graphdoc.capture.places import is_user_file

FEWEST = 2
"""Modules in the list: one alone may be how a program keeps a network out of ``parameters()`` on purpose, so the source
has to tell (``facts["single"]``)."""


@dataclass
class Hidden:
    """What lies in attribute ``facts["attribute"]`` of a module of class ``facts["class"]``."""

    parameters: dict[int, Any]
    facts: dict[str, Any]
    """Further ``file`` and ``line``: where the class's ``__init__`` begins, which may be in no stack of the run."""


def unregistered(torch: Any, unheld: dict[int, Any], held: set[int]) -> Hidden | None:
    """The first list or dict of modules, or of parameters, all of which are among ``unheld``; None where there is none.

    Args:
        unheld: parameters that get gradients and are in no optimizer, by id.
        held: ids of those that are in one: a module with such parameters was given to it.
    """
    module, parameter = torch.nn.Module, torch.nn.Parameter
    single = None
    for owner in gc.get_objects():
        if module not in type(owner).__mro__ or not _is_users(owner):
            continue
        for name, value in list(owner.__dict__.items()):
            items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
            if name.startswith("_") or not items:
                continue
            if all(module in type(v).__mro__ for v in items):
                within = {id(p): p for v in items for p in inside(v)}
            elif all(type(v) is parameter for v in items):
                within = {id(p): p for p in items}
            else:
                continue
            if not within or not within.keys() <= unheld.keys() or not _is_given(owner, held, module):
                continue
            facts = {
                "class": type(owner).__qualname__,
                "attribute": name,
                "parameters": type(next(iter(items))) is parameter,
                "file": type(owner).__init__.__code__.co_filename,
                "line": type(owner).__init__.__code__.co_firstlineno,
            }
            if len(items) >= FEWEST:
                return Hidden(within, {**facts, "single": False})
            single = single or Hidden(within, {**facts, "single": True})
    return single


def _is_given(owner: Any, held: set[int], module: type) -> bool:
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


def _is_users(owner: Any) -> bool:
    code = getattr(type(owner).__init__, "__code__", None)
    return code is not None and is_user_file(code.co_filename)
