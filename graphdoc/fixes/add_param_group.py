"""Give an optimizer parameters: ``Adam(a.parameters())`` → ``Adam([*a.parameters(), *b.parameters()])``.

Args:
    place: the call that makes the optimizer.
    parameters: Python source of what to add, one or several (``"b.parameters()"``, ``"self.scale"``).
    single: True where what is added is one parameter each and not an iterable.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, call, required
from graphdoc.source.module import Source
from graphdoc.source.paths import binding, key, parse_expression
from graphdoc.source.places import Edit
from graphdoc.source.tokens import outer_span

KIND = "add_param_group"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    wanted = required(args, "parameters")
    texts = [wanted] if isinstance(wanted, str) else list(wanted)
    named = [k.value for k in node.keywords if k.arg == "params"]
    if not named and (not node.args or isinstance(node.args[0], ast.Starred)):
        raise CannotFix("the optimizer's parameters cannot be read there")
    given = named[0] if named else node.args[0]
    for text in texts:
        parsed = parse_expression(text)
        if parsed is None:
            raise CannotFix(f"{text} is not an expression")
        if any(isinstance(n, ast.expr) and key(n) == key(parsed) for n in ast.walk(given)):
            raise CannotFix(f"the optimizer already has {text}")
    return _added(source, given, texts, bool(args.get("single")))


def _added(source: Source, given: ast.expr, texts: list[str], single: bool) -> list[Edit]:
    start, end = outer_span(source, given)
    star = "" if single else "*"
    if isinstance(given, ast.List) and given.elts:
        at = outer_span(source, given.elts[-1])[1]
        if isinstance(given.elts[0], ast.Dict):
            groups = "".join(f', {{"params": {f"[{t}]" if single else t}}}' for t in texts)
            return [Edit(source.file, at, at, groups)]
        return [Edit(source.file, at, at, "".join(f", {star}{t}" for t in texts))]
    before, after = "[*", "".join(f", {star}{t}" for t in texts) + "]"
    if (start, end) == source.span(given) and binding(given) < 5:
        before, after = "[*(", ")" + after
    return [Edit(source.file, start, start, before), Edit(source.file, end, end, after)]
