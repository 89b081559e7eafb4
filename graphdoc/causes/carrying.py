"""Ways to keep the numbers of a carried or stored value without its graph."""

from __future__ import annotations

import ast
import re
from typing import Any

from graphdoc.causes.base import Remedy
from graphdoc.causes.constants import frame_at, together
from graphdoc.causes.keeping import behind_the_step, bound_names, element_of, kept_at, kept_name, user_frames
from graphdoc.causes.names import frame_of, function_around, tree
from graphdoc.causes.oldgraph import aliases, distinct_carries
from graphdoc.causes.reuse import Reuse
from graphdoc.causes.spans import place, where
from graphdoc.evidence import Carry, Evidence, Frame, Holder, Node


def detach_behind_step(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """Cut everything that is carried once, behind the step, in the innermost function that can name all of it."""
    out: list[Remedy] = []
    for call in user_frames(reuse.failing.stack if reuse.failing else []):
        paths = _paths_in(evidence, reuse.carries, call)
        if not paths:
            continue
        paths += [p for p in _lingering_in(evidence, call, paths) if p not in paths]
        anchor = behind_the_step(evidence, call)
        shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
        out.append(
            Remedy(
                "detach_after",
                f"detach {shown} once each iteration, after {_verb(anchor, call)} at {where(anchor)}",
                "unsafe",
                "The values go on into the next iteration; gradients stop there, and every parameter still gets its "
                "gradient from the current iteration.",
                {"after": place(anchor), "paths": [list(p) for p in paths]},
            )
        )
    return out


def _verb(anchor: Frame, call: Frame) -> str:
    return "the backward call" if anchor is call else "the optimizer step"


def _paths_in(evidence: Evidence, carries: list[Carry], call: Frame) -> list[tuple[str, Any]]:
    paths: list[tuple[str, Any]] = []
    for c in carries:
        here = [h for h in c.tensor.holders if _in_frame(h, call) and h.structure is not None]
        if not here:
            return []
        # The function's own names before globals; what is kept on an object before a plain name; then the shortest.
        best = min(here, key=lambda h: (h.function != call.function, "." not in h.base, len(h.base)))
        # Of a list of layers, all of which keep a state under this name, none is the only one.
        alike = [best] if best.exact else [h for h in here if _kind_of(h.base) == _kind_of(best.base)]
        for h in sorted(alike, key=lambda h: (len(h.base), h.base)):
            if (h.base, h.structure) not in paths:
                paths.append((h.base, h.structure))
    return paths


def _in_frame(holder: Holder, call: Frame) -> bool:
    if holder.file != call.file:
        return False
    return holder.function == call.function or (holder.function == "<module>" and "." in holder.base)


def _lingering_in(evidence: Evidence, call: Frame, paths: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What the same object, or its sibling in a list of layers, keeps besides with a graph from before: the next
    to fail."""
    owners = {_owner(p) for p, _ in paths if "." in p}
    out: list[tuple[str, Any]] = []
    for tensor in evidence.lingering:
        for h in tensor.holders:
            if (
                _in_frame(h, call)
                and h.structure is not None
                and _owner(h.base) in owners
                and (h.base, h.structure) not in out
            ):
                out.append((h.base, h.structure))
    return out


def _owner(path: str) -> str:
    """What an attribute belongs to; the same for all entries of one list of objects."""
    return _kind_of(path.rpartition(".")[0])


def _kind_of(path: str) -> str:
    """A path without its positions: the same for all entries of one list of objects."""
    return re.sub(r"\.\d+(?=\.|$)|\[\d+\]", ".*", path)


def detach_where_kept(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """Cut where the value is assigned or stored."""
    edits: list[dict[str, Any]] = []
    for c in distinct_carries(evidence, reuse.carries):
        producer = evidence.node(c.producer)
        if producer is None:
            continue
        for frame in kept_at(evidence, c.tensor.holders, producer)[:1]:
            holder = c.tensor.holders[0]
            edit = _assignment(evidence, frame, holder)
            if edit is not None and edit not in edits:
                edits.append(edit)
    if not edits:
        return []
    shown = where(frame_at(edits[0]["args"]["place"]))
    return [
        Remedy(
            "several",
            f"detach the value where it is kept, at {shown}",
            "unsafe",
            "What is kept has the numbers only; the pass that computed it is unchanged as far as it uses the value "
            "under another name.",
            {"edits": edits},
        )
    ]


def _assignment(evidence: Evidence, frame: Frame, holder: Holder) -> dict[str, Any] | None:
    last = kept_name(holder)
    names = bound_names(evidence, frame)
    target = next((n for n in names if n.split("[")[0].rsplit(".", 1)[-1] == last), None)
    if target is None:
        return None
    structure = element_of(holder.structure, 1) if "[" in target else holder.structure
    if structure is None:
        structure = "tensor"
    return {"kind": "detach_assigned", "args": {"place": place(frame), "targets": [[target, structure]]}}


def copy_of_entry(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """Work on a copy of an entry instead of writing this pass's results, graph and all, into the data itself."""
    return [
        Remedy(
            "clone_expression",
            f"take a copy of the entry, at {where(frame)}",
            "unsafe",
            "The data keep their values; each pass works on its own copy and every parameter gets its gradient.",
            {"place": place(frame)},
        )
        for frame in aliases(evidence, reuse)[:1]
    ]


def stored(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """Cut at the expression that goes into the store: an argument of the call that keeps it."""
    edits: list[dict[str, Any]] = []
    for c in distinct_carries(evidence, reuse.carries):
        producer = evidence.node(c.producer)
        for holder in c.tensor.holders:
            field = next((s.key for s in reversed(holder.steps) if s.kind == "attribute"), "")
            found = keyword_given(evidence, producer, field) if producer is not None and field else None
            if found is not None:
                at, structure = found[0], _field_structure(holder)
                edit = {"kind": "detach_expression", "args": {"place": place(at), "structure": structure}}
                if edit not in edits:
                    edits.append(edit)
    if not edits:
        return []
    line = where(frame_at(edits[0]["args"]["place"]))
    return [
        together(
            edits,
            f"store it detached, at {line}",
            "What is stored is data for the updates; they train on their own passes.",
        )
    ]


def _field_structure(holder: Holder) -> Any:
    """What a stored field is, from the classes met on the way: a tuple of tensors or a tensor."""
    kinds = [s.type for s in holder.steps]
    for i in range(len(holder.steps) - 1, 0, -1):
        if holder.steps[i].kind == "attribute":
            return {"tuple": ["tensor", "tensor"]} if kinds[i] == "tuple" else "tensor"
    return "tensor"


def keyword_given(evidence: Evidence, producer: Node, field: str) -> list[Frame] | None:
    """The expression given for ``field=`` in a call of the functions on the producer's stack."""
    for frame in user_frames(producer.stack):
        root = tree(evidence, frame.file)
        if root is None:
            continue
        scope: ast.AST = function_around(root, frame.line) or root
        found = [
            frame_of(evidence, frame.file, k.value, frame.function)
            for n in ast.walk(scope)
            if isinstance(n, ast.Call)
            for k in n.keywords
            if k.arg == field and not isinstance(k.value, ast.Constant | ast.List)
        ]
        if found:
            return found
    return None


def no_grad_over_maker(evidence: Evidence, reuse: Reuse) -> list[Remedy]:
    """The whole function that filled the store, without gradients."""
    out: list[Remedy] = []
    for c in distinct_carries(evidence, reuse.carries)[:1]:
        producer = evidence.node(c.producer)
        for frame in user_frames(producer.stack if producer else [])[:3]:
            if frame.function == "<module>":
                continue
            out.append(
                Remedy(
                    "no_grad_decorator",
                    f"fill the store without gradients: @torch.no_grad() on {frame.function}",
                    "unsafe",
                    "Nothing that is stored has a graph; what the updates compute themselves is trained as before.",
                    {"place": place(frame)},
                )
            )
    return out
