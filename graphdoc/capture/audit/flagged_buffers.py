"""Buffers that require gradients and get them at every backward call, of modules of which an optimizer has the rest.

A buffer is what nobody trains and ``requires_grad`` is what somebody trains: one of the two was not meant.
"""

from __future__ import annotations

import gc
from typing import Any

from graphdoc.capture.audit.hidden import is_given
from graphdoc.capture.code_places import is_users, shown_file
from graphdoc.evidence import Sign


def flagged_buffers(torch: Any, loose: dict[int, Any], held: set[int], cwd: str) -> tuple[dict[int, Any], Sign] | None:
    """``flagged-buffer`` and the buffers of one class: ``facts`` have its name (``class``), those of the ``buffers``,
    and ``file`` and ``line`` of its ``__init__``.

    Args:
        loose: leaves that get gradients, and that nobody has written to or asked the gradient of, by id.
        held: ids of the parameters that are in an optimizer.
    """
    module = torch.nn.Module
    for owner in gc.get_objects():
        if module not in type(owner).__mro__ or not is_users(owner):
            continue
        buffers = (owner.__dict__.get("_buffers") or {}).items()
        mine = {name: b for name, b in buffers if id(b) in loose}
        if not mine or not is_given(owner, held, module):
            continue
        code = type(owner).__init__.__code__
        sign = Sign("flagged-buffer")
        sign.facts = {
            "class": type(owner).__qualname__,
            "buffers": sorted(mine),
            "file": shown_file(code.co_filename, cwd),
            "line": code.co_firstlineno,
        }
        return {id(b): b for b in mine.values()}, sign
    return None
