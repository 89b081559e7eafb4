"""What a second run has seen of values that are not finite, as plain data: with places, names and norms."""

from __future__ import annotations

from itertools import islice
from typing import Any

from graphdoc.capture.birth_records import Record
from graphdoc.capture.code_places import is_user_file
from graphdoc.capture.frames import library_frames, user_stack
from graphdoc.capture.left_out import CHOOSING
from graphdoc.capture.names import Census
from graphdoc.capture.node_stacks import kept_in
from graphdoc.capture.walk import DEEP, nodes_behind
from graphdoc.growth import took_off, usual_size


class PlainRecords:
    """Tells records by the names that tensors have now. ``roots`` are those of the running backward call."""

    def __init__(self, census: Census, roots: list[Any], cwd: str) -> None:
        self._census = census
        self._roots = roots
        self._cwd = cwd

    def told(self, record: Record) -> dict[str, Any]:
        """A record as plain data, with places and names."""
        facts = dict(record.facts)
        for given in (*facts.get("inputs", ()), *(v for v in facts.get("saved", {}).values() if isinstance(v, dict))):
            by = given.get("by", [])
            if not by or isinstance(by[0], tuple):
                given["by"] = [{"op": op, "stack": user_stack(raw, self._cwd)[-1:]} for op, raw in by]
            ident = given.get("ident", 0)
            if ident in self._census.parameter_names:
                given["parameter"] = self._census.parameter_names[ident]
            elif ident in self._census.tensor_paths:
                given["held"] = [h.path for h in self._census.holders(ident, True, self._cwd)[:2]]
        out = {
            "kind": record.kind,
            "op": record.func,
            "shows": record.shows,
            "node": record.node,
            "in_step": record.step,
            "number": record.number,
            **facts,
        }
        out["stack"] = user_stack(record.raw, self._cwd)
        for place in ("loaded", "met"):
            if place in facts:
                out[place] = user_stack(facts[place], self._cwd)
        out["inner"] = record.node != "" and not _in_engine(record.raw)
        raw = record.made if record.node and not out["inner"] else record.raw
        out["called"] = library_frames(raw, self._cwd) if raw is not None else []
        if record.node:
            out["made"] = user_stack(record.made, self._cwd) if record.made is not None else []
            out["chosen"] = self._chosen(record)
        return out

    def _chosen(self, record: Record) -> list[dict[str, Any]]:
        """The place of the ``where`` (or the like) that left this node's result out, nearest first.

        Known by the graph: a path of the running backward call leads from it to the node. One that was seen to take
        all of the bad elements is none of them.
        """
        wanted = record.made
        found: list[tuple[int, Any, str]] = []
        for node, _ in islice(nodes_behind(self._roots), DEEP - 1):
            if str(node.name()) in CHOOSING and _leads(node, record):
                found.append((int(node._sequence_nr()), node, str(node.name())))
        found.sort(key=lambda f: f[0])
        return [
            {"node": name, "stack": user_stack(kept_in(node), self._cwd)}
            for _, node, name in found[:2]
            if kept_in(node) is not None and wanted is not None
        ]


def _in_engine(raw: Any) -> bool:
    """Whether the engine itself called the operation, not Python code of a backward or hook that it runs."""
    for code in raw.raw[::2]:
        if code.co_name == "_engine_run_backward":
            return True
        if is_user_file(code.co_filename):
            return False
    return True


def _leads(start: Any, record: Record) -> bool:
    """Whether a path leads from here to the node that the record is about, by no side that it was seen to spare."""
    todo = [
        n
        for side, (n, _) in enumerate(start.next_functions)
        if n is not None and (id(kept_in(start)), side) not in record.spared
    ]
    seen = set(todo)
    while todo and len(seen) < 400:
        node = todo.pop(0)
        if str(node.name()) == record.node:
            kept = node.metadata.get("traceback_")
            if kept is record.made:
                return True
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)
    return False


def grown(all_norms: dict[int, list[tuple[int, float]]], names: dict[int, str]) -> list[tuple[int, dict[str, Any]]]:
    """The parameters (by identity) whose gradient grew most, and those that grew first: ``from`` is the backward call
    from which on the norm was far above its usual size."""
    out: list[tuple[int, dict[str, Any]]] = []
    for ident, norms in all_norms.items():
        finite = [(call, n) for call, n in norms if n == n and n not in (float("inf"), 0.0)]
        if len(finite) >= 3 and ident in names:
            usual = usual_size([n for _, n in finite])
            begun = took_off(finite)
            out.append((ident, {"name": names[ident], "factor": finite[-1][1] / usual, "from": begun}))
    most = sorted(out, key=lambda g: -float(g[1]["factor"]))[:5]
    grew = [g for g in out if g[1]["from"] is not None]
    first = min((int(g[1]["from"]) for g in grew), default=0)
    return most + [g for g in grew if g[1]["from"] == first and g not in most][:20]
