"""The torch.autograd.Functions of the user's program: what the run saw of them, and how their source reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import innermost_user
from graphdoc.program.tensors import frames
from graphdoc.source.paths import covers

_READS = {"shape", "dtype", "device", "ndim", "training"}
_CUTS = {"numpy", "item", "tolist", "detach", "data", "grad", "apply", "backward", "requires_grad", "tensor"}
_CUTS |= {"as_tensor", "new_tensor", "from_numpy", "inference_mode", "no_grad", "set_grad_enabled", "data_ptr"}
_OURS = ("torch", "math")
_PLAIN = {"len", "range", "zip", "enumerate", "tuple", "list", "sum", "isinstance"}


@dataclass(frozen=True)
class Used:
    """A Function that a graph goes through.

    ``needs`` tells for each input of forward whether it needed a gradient in some call; ``numbers`` are the positions
    that were no tensor in any. ``apply`` is where it was called, ``once`` whether its backward is marked as not
    differentiable, ``seen`` whether the graph held one of its nodes: marked ones are told in any case.
    """

    name: str
    node: str
    file: str
    line: int
    once: bool
    seen: bool
    needs: tuple[bool, ...]
    numbers: frozenset[int]
    apply: Frame | None


def used(extras: dict[str, Any]) -> Iterator[Used]:
    """Every Function of the user's that the failing graph, or a tensor near the failure, came from."""
    told = extras.get("functions")
    for entry in told if isinstance(told, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            continue
        needs = tuple(bool(n) for n in entry.get("needs") or ())
        # Where as many inputs needed gradients as were tensors, all the others were none.
        plain = sum(needs) == entry.get("tensors")
        yield Used(
            entry["name"],
            str(entry.get("node", "")),
            str(entry.get("file", "")),
            int(entry.get("backward") or 0),
            bool(entry.get("once")),
            bool(entry.get("calls")),
            needs,
            frozenset(i for i, n in enumerate(needs) if plain and not n),
            innermost_user(frames(entry.get("made"))),
        )


def runs_backward(frame: Frame) -> bool:
    """Whether the engine calls a custom Function's backward here (``torch.autograd.function``)."""
    return frame.file.replace("\\", "/").endswith("torch/autograd/function.py") and frame.function.endswith("apply")


def only_applied(extras: dict[str, Any]) -> list[Frame]:
    """Where the only Function of the user's that this graph goes through was applied; nothing where there are more."""
    found = list(used(extras))
    return [found[0].apply] if len(found) == 1 and found[0].apply is not None else []


def backward_of(sources: SourceTexts, function: Used) -> tuple[str, ast.FunctionDef] | None:
    """The file and definition of its backward: the one that begins, with its decorators, where the run says."""
    for node in ast.walk(bindings.tree(sources, function.file) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef) and bindings.first_line(node) == function.line:
            return function.file, node
    return bindings.method(sources, function.name, "backward")


def forward_of(sources: SourceTexts, file: str, backward: ast.FunctionDef) -> ast.FunctionDef | None:
    """The forward of the class that this backward stands in."""
    for node in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
        if isinstance(node, ast.ClassDef) and backward in node.body:
            own = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "forward"]
            return own[0] if len(own) == 1 else None
    return None


def inputs_of(forward: ast.FunctionDef, with_ctx: bool = True) -> list[str]:
    """The names of forward's arguments after ``ctx``; empty where their number is not fixed."""
    a = forward.args
    if a.vararg or a.kwonlyargs or a.kwarg:
        return []
    return [x.arg for x in (*a.posonlyargs, *a.args)][int(with_ctx) :]


def takes_ctx(sources: SourceTexts, file: str, forward: ast.FunctionDef) -> bool:
    """Whether forward is given ``ctx``; in a class that has a ``setup_context`` only that is."""
    return not any(
        isinstance(node, ast.ClassDef)
        and forward in node.body
        and any(isinstance(n, ast.FunctionDef) and n.name == "setup_context" for n in node.body)
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
    )


def mark(function: ast.FunctionDef) -> ast.expr | None:
    """The decorator ``once_differentiable`` of a function."""
    return next((d for d in function.decorator_list if bindings.text_of(d).endswith("once_differentiable")), None)


def keeps_the_graph(sources: SourceTexts, file: str, forward: ast.FunctionDef, backward: ast.FunctionDef) -> bool:
    """Whether autograd can differentiate this backward as it is written, as far as its source shows.

    It can where backward computes with operations of torch on ``grad_output`` and on what forward was given or
    returned: these have a graph of their own. What forward computed besides has none (it runs unrecorded), and what
    another library computes neither.
    """
    foreign = _imported_from_elsewhere(bindings.tree(sources, file) or ast.Module([], []))
    parts = [n for statement in backward.body for n in ast.walk(statement)]
    return _saves_only_its_own(forward) and all(_recorded(n, foreign) for n in parts)


def _saves_only_its_own(forward: ast.FunctionDef) -> bool:
    """Whether all that forward leaves on ``ctx`` is an argument, a result, or no tensor at all."""
    nodes = list(ast.walk(forward))
    ctx = forward.args.args[0].arg if forward.args.args else "ctx"
    rebound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own = {*inputs_of(forward)} - rebound
    own |= {name for n in nodes if isinstance(n, ast.Return) for name in bindings.names_in(n.value)}
    saved = [
        n.args for n in nodes if isinstance(n, ast.Call) and bindings.text_of(n.func) == f"{ctx}.save_for_backward"
    ]
    left = [n for n in nodes if isinstance(n, ast.Assign) and bindings.text_of(n.targets[0]).startswith(f"{ctx}.")]
    if not all(isinstance(a, ast.Name) and a.id in own for args in saved for a in args):
        return False
    return all(_is_own_or_plain(n.value, own) for n in left)


def _is_own_or_plain(value: ast.expr, own: set[str]) -> bool:
    if isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id in own):
        return True
    parts = [n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute)]
    return bool(parts) and all(p in _READS for p in parts)


def _imported_from_elsewhere(root: ast.Module) -> set[str]:
    """Names that imports bind to something that is not torch's."""
    found: set[str] = set()
    for node in ast.walk(root):
        if isinstance(node, ast.Import):
            found |= {(a.asname or a.name).split(".")[0] for a in node.names if a.name.split(".")[0] not in _OURS}
        elif isinstance(node, ast.ImportFrom) and (node.level or str(node.module).split(".")[0] not in _OURS):
            found |= {a.asname or a.name for a in node.names}
    return found


def _recorded(node: ast.AST, foreign: set[str]) -> bool:
    """Whether this part of a backward is nothing that would end the graph, write in place or leave torch."""
    if isinstance(node, ast.AugAssign | ast.With | ast.Delete | ast.Global | ast.Nonlocal):
        return False
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return False
    if isinstance(node, ast.Attribute) and (node.attr in _CUTS or (node.attr.endswith("_") and node.attr[:1] != "_")):
        return False
    if isinstance(node, ast.Name) and node.id in foreign:
        return False
    return not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or node.func.id in _PLAIN


def class_of_kept(sources: SourceTexts, frame: Frame, path: str) -> str:
    """The Function of which an object is kept under this path (``self.reverse``); empty where that is not one alone.

    For an attribute it is told by what the class around the frame binds to it, for a plain name by the file.
    """
    root = bindings.tree(sources, frame.file)
    classes = [n for n in ast.walk(root) if isinstance(n, ast.ClassDef)] if root is not None else []
    around = [n for n in classes if covers(n, frame.line)] if path.startswith("self.") else []
    scope: ast.AST | None = around[-1] if around else root
    built = {
        bindings.text_of(node.value.func).rpartition(".")[2] if isinstance(node.value, ast.Call) else ""
        for node in (ast.walk(scope) if scope is not None else ())
        if isinstance(node, ast.Assign) and any(bindings.text_of(t) == path for t in node.targets)
    }
    functions = {
        n.name
        for file in sources
        for n in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(n, ast.ClassDef) and any(bindings.text_of(b).rpartition(".")[2] == "Function" for b in n.bases)
    }
    return built.pop() if len(built) == 1 and built <= functions else ""
