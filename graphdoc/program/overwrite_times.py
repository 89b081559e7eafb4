"""When an overwritten value was saved and when it was written: the nodes of a call, and the call that wrote."""

from __future__ import annotations

from graphdoc.evidence import Event, Evidence, Frame, Node, Stale
from graphdoc.program.loop_owner import is_at
from graphdoc.program.writers import Writer


class OverwriteTimes:
    """The part of an ``Overwrite`` that says when. ``stales`` are the overwritten tensors, ``stale`` the first."""

    _evidence: Evidence
    stales: list[Stale]
    stale: Stale

    def ran_in(self, frame: Frame) -> list[Node]:
        """The nodes that saved one of the tensors in the call at this place, that of the first tensor in front."""
        nodes = (self._evidence.node(s.node) for s in self.stales)
        return [n for n in nodes if n is not None and any(is_at(f, frame) for f in n.stack)]

    def made_by(self, writer: Writer) -> Event | None:
        """The call in the journal that wrote, where it is known: the step, or the only load_state_dict there since."""
        node = self._evidence.node((writer.stale or self.stale).node)
        if writer.event is not None or writer.frame is None or node is None:
            return writer.event
        loads = [
            e
            for e in self._evidence.events
            if e.kind == "load_state_dict"
            and e.sequence >= node.sequence
            and any(is_at(f, writer.frame) for f in e.stack)
        ]
        return loads[0] if len(loads) == 1 else None
