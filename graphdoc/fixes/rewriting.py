"""Code of one pattern written anew by a template: what most edits of a single expression or statement are."""

from __future__ import annotations

import ast
import re

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, kind, required, statement
from graphdoc.source.edits import instead, write, written
from graphdoc.source.module import Source, parsed
from graphdoc.source.paths import parse_expression, same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

_HOLE = "part_of_pattern_"


@kind("rewrite")
def rewrite(sources: Sources, args: Args) -> list[Edit]:
    """Write code anew by a template: ``x`` → ``list(x)``, ``p = new`` → ``p.detach().copy_(new)``.

    Args:
        place: the expression, or the statement where a pattern or its template is one.
        pairs: list of ``[pattern, template]``; the first pattern that fits decides. Each ``{name}`` of a pattern is an
            expression, the same one wherever it stands again, and ``{_}`` any. In a template ``{copy.deepcopy}`` is
            written as the file imports it.
    """
    for pattern, template in required(args, "pairs"):
        plain = all(parse_expression(_with_holes(text)) is not None for text in (pattern, template))
        source, node = (expression if plain else statement)(sources, required(args, "place"))
        found: dict[str, ast.AST] = {}
        if not _fits(parsed(_with_holes(pattern)).body[0], node, found):
            continue
        template, edits = named(source, template, node)
        parts = {k: n for k, n in found.items() if f"{{{k}}}" in template and isinstance(n, ast.expr)}
        if isinstance(node, ast.stmt):
            return [*instead(source, node, [written(source, template, **parts)]), *edits]
        return [write(source, node, template, **parts), *edits]
    raise CannotFix("the code there is written in another way")


def named(source: Source, text: str, at: ast.AST) -> tuple[str, list[Edit]]:
    """A text whose ``{torch.is_tensor}`` are written as the file imports them, and the imports that it needs."""
    edits: list[Edit] = []
    for dotted in re.findall(r"\{((?:torch|copy)(?:\.\w+)+)\}", text):  # others may be of an f-string of the program's
        name = name_for(source, dotted, at)
        text = text.replace(f"{{{dotted}}}", name.text)
        edits += name.edits
    return text, edits


def _with_holes(text: str) -> str:
    """A pattern or template as code, with a name for each of its parts."""
    return re.sub(r"\{([\w.]+)\}", lambda m: _HOLE + m[1].replace(".", "_"), text)


def _fits(pattern: ast.AST, node: ast.AST, found: dict[str, ast.AST]) -> bool:
    """Whether code is of this pattern; what stands for each of its names is ``found`` then."""
    if isinstance(pattern, ast.Expr) and isinstance(node, ast.expr):
        pattern = pattern.value
    if isinstance(pattern, ast.Name) and pattern.id.startswith(_HOLE):
        name = pattern.id.removeprefix(_HOLE)
        return isinstance(node, ast.expr) and (name == "_" or same(found.setdefault(name, node), node))
    if type(pattern) is not type(node):
        return False
    for field, wanted in ast.iter_fields(pattern):
        if field in ("ctx", "kind", "type_comment"):
            continue
        ones, others = ([*v] if isinstance(v, list) else [v] for v in (wanted, getattr(node, field)))
        if len(ones) != len(others):
            return False
        for one, other in zip(ones, others, strict=True):
            both = isinstance(one, ast.AST) and isinstance(other, ast.AST)
            if not (_fits(one, other, found) if both else one == other):
                return False
    return True
