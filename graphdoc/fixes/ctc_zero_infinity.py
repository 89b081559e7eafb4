"""Leave out samples without a path: ``zero_infinity=True`` for ``F.ctc_loss``, or where ``nn.CTCLoss`` is made.

Args:
    place: the call of the loss.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import set_keyword
from graphdoc.source.paths import last_word
from graphdoc.source.places import Edit

KIND = "ctc_zero_infinity"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    if not _named(node, "ctc_loss"):
        made = [
            (s, n)
            for s in sources.values()
            for n in ast.walk(s.tree or ast.Module([], []))
            if isinstance(n, ast.Call) and _named(n, "CTCLoss")
        ]
        if len(made) != 1:
            raise CannotFix("the loss is not made in one place")
        source, node = made[0]
    edits = set_keyword(source, node, "zero_infinity", "True")
    if not edits:
        raise CannotFix("the loss already leaves them out")
    return edits


def _named(node: ast.Call, name: str) -> bool:
    return last_word(node.func) == name
