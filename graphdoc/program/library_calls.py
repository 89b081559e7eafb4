"""Where the program calls PyTorch's own functions, its activation checkpoints, and what it calls past a wrapper."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from graphdoc.evidence import Cut, Frame, Node, SourceTexts
from graphdoc.program.bindings import argument, call_at, frame_of, text_of, tree
from graphdoc.program.exception import NO_GRAPH, message_of, warned
from graphdoc.program.spans import code_at
from graphdoc.program.tracker import behind
from graphdoc.source.module import Function, each, walked
from graphdoc.source.paths import called, is_attribute, is_constant, is_name, path_of, plain_names, sides
from graphdoc.source.scopes import imported, names_bound, stands_for

if TYPE_CHECKING:
    from graphdoc.program.observed import Program


SHARDING = ("fully_shard", "parallelize_module", "distribute_module")
"""Functions of torch.distributed that give a module other parameters, in place."""


def library_calls(sources: SourceTexts, *names: str) -> list[Frame]:
    """Every call, and every bare decorator, of a function of PyTorch's that has one of these names.

    A name that the file imports from elsewhere (``re.compile``) or binds itself (``def checkpoint``, a method of
    ``self``) is none of PyTorch's. One that the file does not bind at all (``from x import *``) is taken at its word.
    """
    found: list[Frame] = []
    for file in sources:
        root = tree(sources, file)
        bound = imported(root).keys() | names_bound(root) | vars(builtins).keys()
        for node in _called(root):
            path = node.func if isinstance(node, ast.Call) else node
            unbound = text_of(path).partition(".")[0] not in bound
            whole = stands_for(root, path) or (text_of(path) if unbound else "")
            if (unbound or whole.startswith("torch.")) and whole.rpartition(".")[2] in names:
                found.append(frame_of(sources, file, node))
    return found


def _called(root: ast.Module) -> Iterator[ast.expr]:
    for node in walked(root):
        if isinstance(node, ast.Call):
            yield node
        elif isinstance(node, Function | ast.ClassDef):
            yield from (d for d in node.decorator_list if not isinstance(d, ast.Call))


def unread_by_transforms(sources: SourceTexts) -> list[Frame]:
    """The functions that ``torch.func.grad`` or ``grad_and_value`` differentiates by their first argument, and that
    never read it."""
    found: list[Frame] = []
    for call in library_calls(sources, "grad", "grad_and_value"):
        given = argument(call_at(sources, call), 0, "func")
        for node in each(tree(sources, call.file), ast.FunctionDef, ast.Lambda):
            meant = node is given or (isinstance(node, ast.FunctionDef) and is_name(given, node.name))
            taken = [*node.args.posonlyargs, *node.args.args]
            if meant and taken and taken[0].arg not in plain_names(node):
                found.append(frame_of(sources, call.file, node))
    return found


# Activation checkpoints: where the program asks for them, of which kind they are, and what ran inside of one.


def checkpoint_calls(sources: SourceTexts) -> list[Frame]:
    """Every call of ``torch.utils.checkpoint`` in the sources."""
    return library_calls(sources, "checkpoint", "checkpoint_sequential")


def reentrant_calls(sources: SourceTexts) -> list[Frame]:
    """Those that are not written as non-reentrant: without the keyword PyTorch takes the reentrant form, with a
    warning (torch/utils/checkpoint.py)."""
    return [f for f in checkpoint_calls(sources) if "use_reentrant=False" not in code_at(sources, f)]


def checkpointed(sources: SourceTexts, call: Frame) -> str:
    """What a call hands to the checkpoint, by its name: ``self.block``; empty where it is no plain name, or where the
    place is no such call but what leads to one."""
    if not any(f.start == call.start for f in checkpoint_calls(sources)):
        return ""
    given = argument(call_at(sources, call), 0, "function")
    return path_of(given) if given is not None else ""


_REFUSES = (
    *("checkpoint-no-output-grad", "checkpoint-grad-incompatible"),
    *("checkpoint-metadata-mismatch", "checkpoint-tensor-count", "checkpoint-more-tensors"),
)
"""Messages (ids) of a checkpoint that does not go on, where the call that it stands for would."""


def checkpoint_fails(program: Program) -> bool:
    """Whether a checkpoint is what this run failed by: it has cut the graph off, or refused to go on."""
    if any(program.message(name) for name in _REFUSES):
        return True
    cut = any(by_checkpoint(c) for c in program.cuts) or warned(program.evidence.warnings, "checkpoint-no-input-grad")
    return cut and message_of(program.raised, *NO_GRAPH) is not None


def ran_inside(nodes: list[Node]) -> set[tuple[str, str]]:
    """The user's functions that ran below a checkpoint in the failing graph, as (file, function)."""
    inside = (node.stack[len(outside(node.stack)) :] for node in nodes)
    return {(f.file, f.function) for stack in inside for f in stack if f.user}


def in_checkpoint(stack: Sequence[Frame]) -> bool:
    """Whether a stack passes through ``torch.utils.checkpoint``."""
    return any(map(_is_checkpoints, stack))


def by_checkpoint(cut: Cut) -> bool:
    """Whether the checkpoint itself has cut here, by its own ``no_grad``, and no switch of the user's inside it."""
    return in_checkpoint(cut.stack) and (not cut.switch or in_checkpoint(cut.switch[-1:]))


def outside(stack: Sequence[Frame]) -> list[Frame]:
    """The part of a stack outside of the checkpoint, so that its innermost user frame is the checkpoint's call."""
    return list(takewhile(lambda f: not _is_checkpoints(f), stack))


def _is_checkpoints(frame: Frame) -> bool:
    return frame.file.replace("\\", "/").endswith("torch/utils/checkpoint.py")


# Which wrapper a call has gone past: ``model`` for ``model.module(x)``, read off the source.


def wrapper_past(sources: SourceTexts, frame: Frame) -> str:
    """What would have to be called instead; empty where the source does not show it, or a method is called.

    Args:
        frame: the call, with its columns.
    """
    call = call_at(sources, frame)
    return _wrapped(sources, frame, call.func) if call is not None and frame.column > 0 else ""


def module_called(sources: SourceTexts, frame: Frame) -> str:
    """The wrapped module of which a method or a part is called: ``model.module`` of ``model.module.loss(x)``."""
    call = call_at(sources, frame)
    node = call.func if call is not None and frame.column > 0 else None
    while isinstance(node, ast.Attribute) and not _wrapped(sources, frame, node):
        node = node.value
    return path_of(node) if node is not None and _wrapped(sources, frame, node) else ""


def _wrapped(sources: SourceTexts, frame: Frame, node: ast.expr) -> str:
    """The path of the wrapper whose module this expression is."""
    values = (node, *(b.value for b in behind(sources, [frame], node)))
    for value in (side for v in values for side in sides(v)):
        if is_attribute(value, "module"):
            return path_of(value.value)
        words = value.args if isinstance(value, ast.Call) else []
        read = called(value) == "getattr" and any(is_constant(w, "module") for w in words[1:2])
        if read or (called(value).startswith("unwrap") and len(words) == 1):
            return path_of(words[0])
    return ""
