"""How to detach (or clone) a value that is more than a tensor: tuples, lists, dicts, deques, named tuples, objects.

A structure is ``"tensor"``, ``None`` or ``"value"`` for what is no tensor, ``{"tuple": [structure, …]}``,
``{"list": structure}``, ``{"dict": structure}``, ``{"deque": structure}``, ``{"namedtuple": [structure, …]}``,
``{"attribute": {name: structure}}`` or ``{"dataclass": {name: structure}}`` (made anew with ``dataclasses.replace``);
``{"optional": structure}`` stands for elements some of which are None.
Several structures in a list may differ; one structure without a list stands for all elements.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from graphdoc.fixes.fix_kind import CannotFix, path_in
from graphdoc.source.edits import write
from graphdoc.source.expressions import may_be_none, may_be_number, tensor_part
from graphdoc.source.module import Source, is_method_call
from graphdoc.source.paths import is_path, parse_expression, with_items
from graphdoc.source.places import Edit
from graphdoc.source.scopes import is_rebindable, name_for, torch_name

_ELEMENTS = ("t", "u", "v", "w")
_VALUE = "_the_value_"
_KEYS = (("k", "v"), ("key", "value"), ("name", "item"))


def converted(structure: Any, text: str, method: str = "detach", depth: int = 0) -> str:
    """An expression for ``text`` with every tensor in it detached; ``text`` must be able to carry ``.detach()``."""
    if structure in ("tensor", "value", None):
        return f"{text}.{method}()" if structure == "tensor" else text
    element = _ELEMENTS[depth]
    match structure:
        case _ if depth >= 3:
            pass
        case {"tuple": []} | {"namedtuple": []} | {"list": []} | {"deque": []}:
            raise CannotFix("the value is empty")
        case {"tuple": [*inner]} | {"namedtuple": [*inner]} if len({repr(s) for s in inner}) > 1:
            _check_repeatable(text, "the elements of the tuple differ")
            items = ", ".join(converted(s, f"{text}[{i}]", method, depth + 1) for i, s in enumerate(inner))
            return f"({items})" if "tuple" in structure else f"type({text})({items})"
        case {"tuple": inner} | {"namedtuple": inner} | {"list": inner} | {"deque": inner}:
            one = inner[0] if isinstance(inner, list | tuple) else inner
            body = f"{converted(one, element, method, depth + 1)} for {element} in {text}"
            return {
                "tuple": f"tuple({body})",
                "list": f"[{body}]",
                "namedtuple": f"type({text})(*({body}))",
                "deque": f"type({text})(({body}), {text}.maxlen)",
            }[next(iter(structure))]
        case {"dict": inner}:
            name, value = _KEYS[depth]
            one = converted(inner, value, method, depth + 1)
            return f"{{{name}: {one} for {name}, {value} in {text}.items()}}"
        case {"optional": inner}:
            _check_repeatable(text, "the value may be None")
            either = f"{text} if {text} is None else {converted(inner, text, method, depth)}"
            return either if depth else f"({either})"
        case {"dataclass": Mapping() as inner}:
            fields = ", ".join(f"{n}={converted(s, f'{text}.{n}', method, depth + 1)}" for n, s in inner.items())
            return f"dataclasses.replace({text}, {fields})"
    raise CannotFix("the value is nested in a way that has no short expression")


def _check_repeatable(text: str, why: str) -> None:
    if not is_path(parse_expression(text) or ast.Constant(0)):
        raise CannotFix(f"{why}, and its expression cannot be repeated")


def convert_expression(source: Source, node: ast.expr, structure: Any, method: str = "detach") -> list[Edit]:
    """Edits that put the detached value in place of an expression, with parentheses only where they are needed."""
    if isinstance(node, ast.NamedExpr):  # the name is bound to the detached value too
        return convert_expression(source, node.value, structure, method)
    part = tensor_part(node) if structure == "tensor" else None
    if part is not None:
        return convert_expression(source, part, structure, method)  # the number in the other case has no such method
    text = source.segment(node)
    if _already(node, structure, method):
        raise CannotFix(f"the expression already ends in .{method}()")
    match structure, node:
        case ({"tuple": inner}, ast.Tuple() as parts) | ({"list": inner}, ast.List() as parts):
            return _elementwise(source, parts, inner, method)
    edits = list(name_for(source, "dataclasses", node).edits) if _is_dataclass(structure) else []
    template = converted(structure, _VALUE, method)
    if template.count(_VALUE) == 1:
        return [*edits, write(source, node, template.replace(_VALUE, "{it}"), it=node)]
    if not is_path(node):
        raise CannotFix("the expression would have to be computed twice")
    return [*edits, write(source, node, converted(structure, text, method))]


def _is_dataclass(structure: Any) -> bool:
    return isinstance(structure, Mapping) and "dataclass" in structure


def _elementwise(source: Source, node: ast.Tuple | ast.List, structures: Any, method: str) -> list[Edit]:
    if not isinstance(structures, list | tuple):  # one for all
        structures = [structures] * len(node.elts)
    if len(structures) != len(node.elts) or any(isinstance(e, ast.Starred) for e in node.elts):
        raise CannotFix("the elements written here are not those that the run saw")
    edits: list[Edit] = []
    for element, structure in zip(node.elts, structures, strict=True):
        if structure not in (None, "value") and not _already(element, structure, method):
            edits += convert_expression(source, element, structure, method)
    if not edits:
        raise CannotFix(f"every element already ends in .{method}()")
    return edits


def _already(node: ast.expr, structure: Any, method: str) -> bool:
    if structure == "tensor":
        called = is_method_call(node) and node.func.attr
        return called == method or (method == "detach" and called in ("item", "detach_"))
    match node:
        case ast.Call(args=[ast.GeneratorExp(elt=made)]) | ast.ListComp(elt=made) | ast.DictComp(value=made):
            return _already(made, "tensor", method)
    return False


def rebinding(
    source: Source, at: ast.stmt, path: str, structure: Any, method: str = "detach", same: bool = False
) -> tuple[list[str], list[Edit]]:
    """Statements that give a path its detached value at a statement, and the imports that they need.

    A variable of an enclosing scope cannot be assigned here: it is changed in place; with ``same`` a container is.
    """
    path = with_items(path)
    node = path_in(path)
    if isinstance(structure, Mapping) and "attribute" in structure:
        texts: list[str] = []
        edits: list[Edit] = []
        for name, inner in structure["attribute"].items():
            more, needed = rebinding(source, at, f"{path}.{name}", inner, method)
            texts += more
            edits += needed
        return texts, edits
    if structure in (None, "value"):
        return [], []
    edits = []
    if _is_dataclass(structure):
        edits += name_for(source, "dataclasses", at).edits
    if (same and structure != "tensor") or (isinstance(node, ast.Name) and not is_rebindable(source, node.id, at)):
        return [_in_place(path, structure, method)], edits
    if structure == "tensor" and may_be_number(source, path, at):
        torch = torch_name(source, at)
        return [f"if {torch.text}.is_tensor({path}): {path} = {path}.{method}()"], [*edits, *torch.edits]
    holder = may_be_none(source, node, at)
    guard = f"if {holder} is not None: " if holder else ""
    return [f"{guard}{path} = {converted(structure, path, method)}"], edits


def _in_place(path: str, structure: Any, method: str) -> str:
    match structure:
        case "tensor" if method == "detach":
            return f"{path}.detach_()"
        case {"list": _}:
            return f"{path}[:] = {converted(structure, path, method)}"
        case {"dict": _}:
            return f"{path}.update({converted(structure, path, method)})"
        case {"deque": inner}:
            element = converted(inner, f"{path}.popleft()", method, 1)
            return f"{path}.extend([{element} for _ in range(len({path}))])"
    raise CannotFix(f"{path} belongs to an enclosing scope and cannot be assigned here")
