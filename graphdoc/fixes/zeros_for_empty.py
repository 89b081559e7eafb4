"""Ask for zeros instead of memory as it is found: ``torch.empty(n)`` → ``torch.zeros(n)``.

Args:
    place: the call.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import rename
from graphdoc.source.places import Edit

KIND = "zeros_for_empty"
_NAMES = {
    "empty": "zeros",
    "empty_like": "zeros_like",
    "new_empty": "new_zeros",
    "Tensor": "zeros",
    "FloatTensor": "zeros",
}


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr not in _NAMES:
        raise CannotFix("what asks for the memory is none of torch's own functions")
    return [rename(source, function, _NAMES[function.attr])]
