"""What a program masks with: the expression that says which elements are left out, where -inf is written for them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import expression_at, source_at
from graphdoc.source.module import Source, is_method_call
from graphdoc.source.paths import last_word
from graphdoc.source.scopes import is_torchs

_FILLS = ("masked_fill", "masked_fill_")


@dataclass(frozen=True)
class Mask:
    """``text`` as the program writes it, at ``frame``. ``handed``: to a layer, as its ``key_padding_mask`` or the like,
    which writes the -inf itself."""

    text: str
    frame: Frame
    handed: bool = False


def mask_at(sources: SourceTexts, frame: Frame | None) -> Mask | None:
    """The mask of ``x.masked_fill(mask, v)``, ``torch.where(mask, x, v)``, ``x[mask] = v`` or ``layer(x, mask=m)``.

    None where the expression at this place takes none, or several.
    """
    node = expression_at(sources, frame)
    if frame is None or node is None:
        return None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _mask(sources, frame, node.slice)
    if not isinstance(node, ast.Call):
        return None
    name = last_word(node.func)
    if name in _FILLS or name == "where":
        source = source_at(sources, frame)
        first = [a for a in node.args if not _holds_filled(source, node, a)]
        return _mask(sources, frame, first[0]) if first else None
    given = [k.value for k in node.keywords if k.arg is not None and k.arg.endswith("mask")]
    given = [v for v in given if not isinstance(v, ast.Constant)]
    return _mask(sources, frame, given[0], handed=True) if len(given) == 1 else None


def _holds_filled(source: Source, node: ast.Call, argument: ast.expr) -> bool:
    """Whether it is what ``torch.masked_fill(x, mask, v)`` fills: its first argument."""
    of_torch = is_method_call(node) and is_torchs(source, node.func.value)
    return of_torch and last_word(node.func) in _FILLS and argument is node.args[0]


def _mask(sources: SourceTexts, frame: Frame, node: ast.expr, handed: bool = False) -> Mask:
    return Mask(bindings.text_of(node), bindings.frame_of(sources, frame.file, node), handed)
