"""The tensor that a write goes into where it is the item of a container: ``state[3]`` of ``state[3][:, i] = x``."""

from __future__ import annotations

import ast

from graphdoc.evidence import Holder, SourceTexts
from graphdoc.program.writers import Writer
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, last_word, targets_of
from graphdoc.source.places import Place

_ASSIGNABLE = frozenset({"list", "dict", "OrderedDict", "defaultdict"})


def entry_written(sources: SourceTexts, writer: Writer) -> str:
    """The item as the writing statement spells it; empty where the tensor is not seen to be one.

    ``state[3][:, i] = x`` writes into a part of ``state`` where that is a tensor, and into its item where it is a list;
    the source does not tell which. How the program reaches the written tensor does.
    """
    frame, stale = writer.frame, writer.stale
    if frame is None or stale is None:
        return ""
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    parts = [t for t in targets_of(owner) if isinstance(t, ast.Subscript)] if owner is not None else []
    if len(parts) != 1:
        return ""
    inner: ast.Subscript = parts[0]
    while isinstance(inner.value, ast.Subscript):
        inner = inner.value
    if inner is parts[0] and not isinstance(owner, ast.AugAssign):
        return ""  # the item itself is bound anew
    held = [h for h in stale.tensor.holders if h.exact]
    if not is_path(inner.value) or not held or not all(_is_item(h, inner) for h in held):
        return ""
    return source.segment(inner)


def _is_item(holder: Holder, written: ast.Subscript) -> bool:
    """Whether a tensor is held as the item of a container of this name, by this key where the source tells it."""
    if len(holder.steps) < 2:
        return False
    container, item = holder.steps[-2:]
    if container.type not in _ASSIGNABLE or container.key.strip("'\"") != last_word(written.value):
        return False
    index = written.slice
    return not isinstance(index, ast.Constant) or repr(index.value) == item.key or str(index.value) == item.key
