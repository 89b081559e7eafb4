"""Empty lists behind a statement: ``log_probs.clear()`` and ``rewards.clear()`` behind the step that has used them.

Args:
    place: the statement behind which they are emptied.
    paths: the lists as they are written there.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import insert_after
from graphdoc.source.paths import is_path, parse_expression
from graphdoc.source.places import Edit

KIND = "clear_lists"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    paths = [str(p) for p in required(args, "paths")]
    for path in paths:
        parsed = parse_expression(path)
        if parsed is None or not is_path(parsed):
            raise CannotFix(f"{path} is no name of a list")
    if not paths:
        raise CannotFix("no list is named")
    return insert_after(source, node, [f"{path}.clear()" for path in paths])
