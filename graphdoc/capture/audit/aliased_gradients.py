"""Gradients that the program keeps while they are the parameter's own: what clears or adds to one changes both."""

from __future__ import annotations

import sys
from sys import _getframe
from typing import TYPE_CHECKING, Any

import torch._C as torch_c

from graphdoc.capture import event_stacks
from graphdoc.capture.code_places import shown_file
from graphdoc.capture.facts import storage_of, user_frames
from graphdoc.capture.frames import frames_of
from graphdoc.capture.names import Census
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.search_roots import roots_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted

MOST_SEARCHES = 6


class Aliases:
    """``grad-aliased``: ``stack`` is the backward call that is about to add to what is kept; ``facts["kept"]`` says
    under which names, in which functions and lines."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._searches = 0
        self._found: dict[Any, Sign] = {}
        self._alone: tuple[int, int] | None = None
        """What ``_references`` counts for a gradient that nobody else keeps."""

    def called(self, noted: Noted, leaves: dict[int, Any]) -> None:
        """A backward call is about to run and will add to the gradients of these leaves."""
        if self._searches >= MOST_SEARCHES or all(p.grad is None for p in leaves.values()):
            return
        shared: dict[Any, Any] = {}
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            try:
                alone = self._alone = self._alone or _references(_alone(self._audit.torch))
                for p in leaves.values():
                    if p.grad is not None and any(n > m for n, m in zip(_references(p), alone, strict=True)):
                        shared[storage_of(p.grad)] = p
            except (AttributeError, RuntimeError, TypeError, NotImplementedError):
                return  # gradients that are no plain tensors
        if shared:
            self._searches += 1
            self._search(noted, shared)

    def _search(self, noted: Noted, shared: dict[Any, Any]) -> None:
        """Under which names of the functions that are running the shared gradients are kept."""
        audit, frame = self._audit, _getframe(1)
        with Unseen(audit.torch, audit.witness.anomaly, frame):
            running = user_frames(frame)
            cwd = audit.witness.cwd
            lines = {(f.f_code.co_qualname, shown_file(f.f_code.co_filename, cwd)): f.f_lineno for f in running}
            census = Census(roots_of(running), audit.torch)
            kept: dict[tuple[str, str, str], dict[str, Any]] = {}
            owned = {id(p) for p in shared.values()}
            for ident in census.tensor_paths:
                tensor = census.tensors[ident]
                parameter = shared.get(storage_of(tensor))
                if parameter is None or ident in owned:
                    continue
                for holder in census.holders(ident, True, audit.witness.cwd):
                    line = lines.get((holder.function, holder.file))
                    if line is None or len(holder.steps) == 1:
                        continue  # a single name is most often what a loop has left behind
                    at = kept.setdefault((holder.base, holder.function, holder.file), {"line": line, "parameters": []})
                    name = census.parameter_names.get(id(parameter))
                    if name and name not in at["parameters"]:
                        at["parameters"].append(name)
        if not kept:
            return
        audit.snapshot()
        raw = event_stacks.stack_of_seen(noted[3])
        for (name, function, file), at in kept.items():
            sign = self._found.get((name, function, file))
            if sign is None:
                sign = self._found[(name, function, file)] = Sign(
                    "grad-aliased", frames_of(raw, audit.witness.cwd), parameters=sorted(at["parameters"])
                )
                sign.facts = {"name": name, "function": function, "file": file, "line": at["line"]}
            sign.count += 1
            sign.event = noted[0]
        audit.tell_early()

    def signs(self) -> list[Sign]:
        return list(self._found.values())


def _references(parameter: Any) -> tuple[int, int]:
    """How many names there are for a parameter's gradient, and how many tensors share its memory."""
    grad = parameter.grad
    memory = torch_c._storage_Use_Count(grad.untyped_storage()._cdata)
    return sys.getrefcount(grad), int(memory)


def _alone(torch: Any) -> Any:
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    return parameter
