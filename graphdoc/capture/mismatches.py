"""Version mismatches: which tensor it is that a node saved and somebody wrote to since, and who wrote."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from graphdoc.capture import walk
from graphdoc.capture.facts import extent_of, grad_fn_of, is_leaf, shape_of, storage_of, version_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.given_out import GivenOut
from graphdoc.capture.saved_contents import stale_contents
from graphdoc.capture.step_writes import UNKNOWN, versions_of
from graphdoc.evidence import Evidence, Holder, Stale, Tensor, Write

if TYPE_CHECKING:
    from graphdoc.capture.autopsy import Autopsy

MOST_TOLD = 40


class Mismatches:
    """Looks at the stale nodes of one examination."""

    def __init__(self, seen: Autopsy) -> None:
        self.seen = seen
        self._given_out = GivenOut(seen.order, seen.bits, seen.raw_stack)

    def fill(self, evidence: Evidence, found: walk.Found) -> None:
        """Tell every saved tensor of a node whose version is no longer the one that was saved."""
        for attribute, expected, current in found.stale:
            for tensor in stale_contents(found.node, attribute)[:8]:
                if attribute == "saved_tensors" and version_of(tensor) != current:
                    continue
                told, owner = self._identify(tensor)
                stale = Stale(self.seen.tell(evidence, found.number), attribute, told, expected, current)
                stale.output = attribute in ("_saved_result", "_saved_output")
                stale.writes = self._writes(found, owner, tensor, current, current - expected)
                stale.behind = self.seen.names(self.seen.bits[found.number])
                stale.given_out = self._more_behind(found)
                producer = self._producer(found, attribute)
                stale.producer = self.seen.tell(evidence, producer) if producer >= 0 else -1
                evidence.stale.append(stale)
                break

    def _more_behind(self, found: walk.Found) -> list[list[str]]:
        """For each call of the program's that led to the node, innermost first, the parameters behind what it gave out
        that do not lie behind the calls inside it."""
        out: list[list[str]] = []
        known = self.seen.bits[found.number]
        for bits in self._given_out.behind(found.number):
            out.append(self.seen.names(bits & ~known))
            known |= bits
        return out

    def _producer(self, found: walk.Found, attribute: str) -> int:
        """The node whose output was saved: for a saved input the matching edge, for a saved result the node itself."""
        if attribute in ("_saved_result", "_saved_output"):
            return found.number
        return -1

    def _identify(self, tensor: Any) -> tuple[Tensor, Any]:
        """Tell which parameter, buffer or reachable tensor shares this tensor's storage.

        Another part of the memory (the last row, where the first was saved) lends it its name only where nothing that
        has a part in common does.
        """
        told = Tensor(
            "activation", "", shape_of(tensor), str(tensor.dtype), version_of(tensor), bool(tensor.requires_grad)
        )
        storage = storage_of(tensor)
        if storage is None:
            return told, None
        for ident, (name, parameter, buffer) in self.seen.census.parameters.items():
            if storage_of(parameter) == storage:
                told.kind = "buffer" if buffer else "parameter"
                told.name = name
                told.is_leaf = is_leaf(parameter)
                told.requires_grad = bool(parameter.requires_grad)
                told.owners = self.seen.owners.get(ident, [])
                told.holders = self.seen.census.holders(ident, True, self.seen.cwd)
                return told, parameter
        best = None
        beside: list[Holder] = []
        for ident, other in self.seen.census.tensors.items():
            if storage_of(other) == storage:
                holders = self.seen.census.holders(ident, True, self.seen.cwd)
                (told.holders if _overlap(tensor, other) else beside).extend(holders)
                if best is None or is_leaf(other):
                    best = other
        told.holders = (told.holders or beside)[:8]
        if told.holders:
            told.name = min(told.holders, key=lambda h: (len(h.steps), len(h.path))).told
        if best is not None and is_leaf(best):
            told.is_leaf = True
            told.kind = "leaf" if best.requires_grad else "input"
        return told, best

    def _writes(self, found: walk.Found, owner: Any, tensor: Any, current: int, delta: int) -> list[Write]:
        """Who wrote, as far as this run knows: optimizer steps, and in-place operations that are part of a graph."""
        out: list[Write] = []
        if self.seen.watch is not None:
            out = self.seen.watch.writes_to(storage_of(tensor), current - delta, current, self.seen.cwd)
            if out:
                return out[:MOST_TOLD]
        if owner is not None and (out := self._steps(found, owner)):
            return out[:MOST_TOLD]
        storage = storage_of(tensor)
        nodes: dict[Any, int] = {}
        for other in _sharing(self.seen.torch, storage):
            node = grad_fn_of(other)
            # The chain of in-place operations on one storage, newest first: each is newer than the node that saved.
            for _ in range(max(delta, 1) * 4):
                if node is None:
                    break
                sequence = node._sequence_nr()
                if not found.sequence < sequence < walk.NO_SEQUENCE:
                    break
                if _in_place(node.name()):
                    nodes[node] = sequence
                node = node.next_functions[0][0] if node.next_functions else None
        for node, _ in sorted(nodes.items(), key=lambda pair: pair[1]):
            raw = self.seen.raw_stack(node)
            if raw:
                out.append(Write(str(node.name()), frames_of(raw, self.seen.cwd), certain=False))
        return out[:MOST_TOLD]

    def _steps(self, found: walk.Found, owner: Any) -> list[Write]:
        """The steps of the optimizers that hold the parameter, since the node was made."""
        out: list[Write] = []
        ids = self.seen.owners.get(id(owner), [])
        for entry in self.seen.entries:
            if entry.kind == "step" and entry.sequence > found.sequence and entry.optimizer in ids:
                seen = next((s for s in self.seen.journal.optimizers.values() if s.id == entry.optimizer), None)
                stepped = seen.ref() if seen else None
                moved = versions_of(stepped, owner) if stepped is not None else UNKNOWN
                if moved != 0:  # what a fused kernel writes is not counted: another write moved the counter
                    name = seen.type if seen else "Optimizer"
                    frames = frames_of(entry.raw, self.seen.cwd)
                    out.append(Write(f"{name}.step", frames, moved=moved, event=entry.index))
        return out


def _sharing(torch: Any, storage: int | None) -> list[Any]:
    """Every live tensor with this storage, found through the garbage collector (``type``, never ``isinstance``)."""
    if storage is None:
        return []
    wanted = (torch.Tensor, torch.nn.Parameter)
    return [o for o in gc.get_objects() if type(o) in wanted and storage_of(o) == storage]


def _overlap(tensor: Any, other: Any) -> bool:
    """Whether two tensors of one storage may have elements in common; True where that is not known."""
    one, two = extent_of(tensor), extent_of(other)
    return one is None or two is None or (one[0] < two[1] and two[0] < one[1])


def _in_place(name: str) -> bool:
    return name.endswith("CopySlices") or "CopySlices" in name or not name.startswith(("View", "AsStrided", "Slice"))
