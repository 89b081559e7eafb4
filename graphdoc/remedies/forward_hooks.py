"""Writes that run as a module's forward hook: inside the forward pass, right behind what the layer has saved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import frame_of, tree
from graphdoc.program.spans import place, where
from graphdoc.program.writers import Writer
from graphdoc.source.paths import last_word

REGISTERING = ("register_forward_hook", "register_module_forward_hook")


@dataclass(frozen=True)
class Hook:
    """``frame`` is the line that runs in the hook's own function, ``registered`` the calls that register it."""

    frame: Frame
    registered: tuple[Frame, ...]


def hook_of(sources: SourceTexts, writer: Writer | None) -> Hook | None:
    """The forward hook in which a write runs; None where it runs in none, or nothing registers it in the sources.

    ``Module._call_impl`` calls ``forward`` and the hooks; what it calls by another name than ``forward`` is a hook.
    """
    inner: Frame | None = None
    for frame in reversed(writer.stack if writer is not None else ()):
        # Decorators of the hook's own (``no_grad``) stand between it and what calls it.
        if not frame.user and "_call_impl" in frame.function:
            found = tuple(_registered(sources, inner)) if inner is not None else ()
            return Hook(inner, found) if inner is not None and found else None
        if frame.function.rpartition(".")[2] == "forward":
            return None
        inner = frame if frame.user else inner
    return None


def _registered(sources: SourceTexts, frame: Frame) -> Iterator[Frame]:
    owner, _, name = frame.function.rpartition(".")
    wanted = owner.rpartition(".")[2] if name == "__call__" else name
    for file in sources:
        root = tree(sources, file)
        for node in ast.walk(root) if root is not None else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in REGISTERING and node.args and _is_hook(root, node.args[0], wanted, name == "__call__"):
                yield frame_of(sources, file, node)


def _is_hook(root: ast.Module | None, given: ast.expr, wanted: str, instance: bool) -> bool:
    """Whether what is registered is the function of this name, or an object of the class of this name."""
    if instance:
        if isinstance(given, ast.Call):
            return last_word(given.func) == wanted
        return any(
            isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and last_word(n.value.func) == wanted
            for n in ast.walk(root or ast.Module([], []))
            if any(ast.unparse(t) == ast.unparse(given) for t in getattr(n, "targets", ()))
        )
    return last_word(given) == wanted


def hook_remedies(hook: Hook) -> list[Remedy]:
    """Write before the layer computes, or once the step is made."""
    lines = ", ".join(dict.fromkeys(where(f) for f in hook.registered[:3]))
    return [
        Remedy(
            "forward_pre_hook",
            f"run it as a forward pre-hook, registered at {lines}",
            "unsafe",
            "It writes before the layer computes: the pass runs with what was written, and its backward finds the same "
            "values. A step may leave other values until the next forward pass.",
            {"places": [place(f) for f in hook.registered], "hook": place(hook.frame)},
        ),
        Remedy(
            "write_after_step",
            "Write behind `optimizer.step()`, under torch.no_grad(), and register no hook for it",
            "display",
            "Every pass runs with what was written after the step before; nothing writes between a forward pass and "
            "its backward.",
        ),
    ]
