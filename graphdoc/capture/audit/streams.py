"""Nodes that collect a gradient on another CUDA stream than the one it arrives on: who has kept them from before."""

from __future__ import annotations

import gc
from sys import _getframe
from types import FrameType
from typing import Any

from graphdoc.capture import node_stacks, walk
from graphdoc.capture.audit.hidden import inside
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import grad_fn_of, user_frames
from graphdoc.capture.journal import leaves_behind
from graphdoc.capture.names import Census
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import roots_of_call
from graphdoc.capture.search_roots import roots_of
from graphdoc.evidence import Sign

MOST_TOLD = 4


class Streams(Watch):
    """``kept-collector``: PyTorch warned, in the backward call at ``other``, that a parameter's AccumulateGrad node is
    of another stream. ``stack`` is where a value was made that has kept it since: its graph is older than this one
    and leads to the same parameters. ``facts["name"]`` is what the program calls it or, with ``facts["inside"]``, its
    container. With ``facts["wrapped"]`` it is DistributedDataParallel that keeps the nodes, and there is no ``stack``.
    """

    def mismatched(self) -> None:
        """PyTorch shows its warning; it does so once."""
        audit, frame = self._audit, _getframe(1)
        engine = audit.witness.calls
        at: FrameType | None = frame
        while at is not None and at.f_code is not engine.code:
            at = at.f_back
        call = at.f_locals.get(engine.token) if at is not None else None
        if self._found or not call:
            return
        with Unseen(audit.torch, audit.witness.anomaly, frame):
            self._look(call[0], call[1], user_frames(frame))
        if self._found:
            audit.tell_early()

    def _look(self, noted: Any, outputs: Any, running: list[FrameType]) -> None:
        audit = self._audit
        roots = [r for r in roots_of_call(outputs) if r is not None]
        leaves = leaves_behind(roots)
        if not leaves:
            return
        began = min(node._sequence_nr() for node, _ in walk.nodes_behind(roots))
        audit.snapshot()
        backward = self._call(noted)
        census = Census(roots_of(running), audit.torch)
        for ident, tensor in census.tensors.items():
            node = grad_fn_of(tensor)
            if node is None or node._sequence_nr() >= began or len(self._found) == MOST_TOLD:
                continue
            shared = (leaves_behind([node]) or {}).keys() & leaves.keys()
            holders = census.holders(ident, True, audit.witness.cwd) if shared else []
            kept = node_stacks.stack_of(node)
            if holders and kept is not None:
                sign = Sign("kept-collector", self._frames(kept), backward, event=noted[0])
                sign.parameters = audit.named(shared)
                name, inside, _ = holders[0].told.partition("[")
                sign.facts = {"name": name, "inside": bool(inside)}
                self._found += [sign] if sign not in self._found else []
        wrapped = self._wrapped(leaves)
        if wrapped:
            sign = Sign("kept-collector", [], backward, event=noted[0], facts={"wrapped": True})
            sign.parameters = audit.named(wrapped)
            self._found.append(sign)

    def _wrapped(self, leaves: dict[int, Any]) -> set[int]:
        """Those of these leaves that a DistributedDataParallel has hooks in."""
        kind = self._audit.torch.nn.parallel.DistributedDataParallel
        every = [o for o in gc.get_objects() if kind in type(o).__mro__]
        return {id(p) for wrapper in every for p in inside(wrapper)} & leaves.keys()
