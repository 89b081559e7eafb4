"""A loss that takes an older value, where its function has computed a new one by the same call that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.fixes.program_slices import made_of, reads
from graphdoc.program import bindings
from graphdoc.program.bindings import frame_of, source_at, statement_at
from graphdoc.program.carried_names import Carried
from graphdoc.program.container_entries import statements
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, user_line
from graphdoc.program.update_function import Scene
from graphdoc.remedies.fix_places import frame_at, one_a_statement
from graphdoc.source.effects import another_each_time
from graphdoc.source.module import each, walked
from graphdoc.source.paths import covers, is_read, names_written, plain_names
from graphdoc.story.wording import listing

New = tuple[Frame, str, str]
"""A place, the name that is read there, and the one that was meant."""


def behind_step(sources: SourceTexts, at: Scene | None) -> list[Remedy]:
    """For forwards before a step and a loss behind it."""
    return _made_again(sources, at.lines, at.write, at.backward) if at is not None else []


def behind_call(program: Program, reuse: Reuse) -> list[Remedy]:
    """For values of a graph that an earlier call has used up, which another call than the failing one made."""
    makers = [c.made for c in reuse.carries]
    if reuse.calls is None or reuse.same_line or not makers or None in makers:
        return []
    freeing, failing = reuse.calls
    for backward in reversed([f for f in failing.stack if f.user]):
        earlier = in_function(freeing.stack, backward)
        made = [f for n in makers if n is not None and (f := in_function(n.stack, backward)) is not None]
        if earlier is not None and len(made) == len(makers):
            return _made_again(program.sources, list({f.line: f for f in made}.values()), earlier, backward)
    return []


def _made_again(sources: SourceTexts, forwards: list[Frame], after: Frame, backward: Frame) -> list[Remedy]:
    """The new values wherever the failing loss is made of the old ones behind a line."""
    call, found = statement_at(sources, backward), list[New]()
    for made in (statement_at(sources, f) for f in forwards):
        name = next(iter(dict(_targets(made))), "")
        drawn = made is None or another_each_time(made)
        new = "" if drawn else _unread(sources, backward, name, _text(made), after=after.line)
        scope = bindings.scope_at(sources, backward)
        last = [s for s in statements(scope) if made is not None and made.lineno < s.lineno <= backward.line]
        if not new or call is None or any(name in names_written(s) for s in last):
            return []
        taken = [s for s in [*made_of(last, reads(call)), call] if name in reads(s)]
        found += [(frame_of(sources, backward, s), name, new) for s in taken]
    return _instead(found)


def of_this_update(sources: SourceTexts, cut: Remedy) -> list[Remedy]:
    """In place of a cut where the loss uses attributes that another function has set: what its own has computed."""
    found: list[New] = []
    for edit in cut.parts:
        operands = edit["args"].get("operands") if edit["kind"] == "detach_expression" else None
        if not operands or len(operands) != 1:
            return []
        at, path = frame_at(edit), str(operands[0][0])
        scope = bindings.function_at(sources, at)
        sets = [s for s in each(bindings.tree(sources, at.file), ast.Assign) if not (scope and covers(scope, s.lineno))]
        kept = [_text(s) for s in sets if "." in path and any(ast.unparse(t) == path for t in s.targets)]
        new = {_unread(sources, at, path, old.replace(".detach()", "")) if ".detach()" in old else "" for old in kept}
        if len(new) != 1 or "" in new:
            return []
        found.append((at, path, new.pop()))
    places = one_a_statement(sources, [at for at, *_ in found])
    return _instead([one for one in found if one[0] in places])


def of_this_pass(program: Program, reuse: Reuse) -> list[Remedy]:
    """For a value that was computed once, outside of the function that takes it."""
    found = [_of_carry(c) for c in reuse.carries]
    known = {f[1:]: f[0] for f in found if f is not None}
    if len(known) != 1:
        return []
    (((name, new), read),) = known.items()
    scope = bindings.scope_at(program.sources, read)
    taken = sorted((n.lineno, n.col_offset, n) for n in each(scope, ast.Name) if n.id == name and is_read(n))
    places = one_a_statement(program.sources, [frame_of(program.sources, read, n) for *_, n in taken])
    return _instead([(at, name, new) for at in places])


def _of_carry(carry: Carried) -> New | None:
    """The read of a name from outside of its function, and the local one that was meant."""
    read, sources = user_line(carry.taken), carry.run.sources
    scope = bindings.function_at(sources, read)
    if read is None or scope is None:
        return None
    here = {n.id for n in each(scope, ast.Name) if is_read(n) and n.lineno == read.line}
    for name in sorted(here - plain_names(scope, ast.Store)):
        for at, value in bindings.assignments(sources, read, name)[:1]:
            position = dict(_targets(statement_at(sources, at))).get(name)
            made_there = position is not None and any(f.on_lines_of(at) for f in carry.made.stack)
            function = ast.unparse(value.func) if made_there and isinstance(value, ast.Call) else ""
            if function and (new := _unread(sources, read, name, function, position or ())):
                return read, name, new
    return None


def _unread(
    sources: SourceTexts, use: Frame, name: str, old: str, position: tuple[int, ...] = (), after: int = 0
) -> str:
    """The one name that a function has bound whenever it comes to the use, behind a line, to what the same call (or
    function, where that is all that is given) gives in this place, and that nothing reads in that case; else empty."""
    source, scope = source_at(sources, use), bindings.scope_at(sources, use)
    arms = [arm for b in each(scope, ast.If) for arm in ((b.body, b.orelse), (b.orelse, b.body))]
    apart = {id(n) for here, other in arms if any(covers(s, use.line) for s in here) for s in other for n in walked(s)}
    loads = {n.id for n in each(scope, ast.Name) if is_read(n) and id(n) not in apart}
    calls = [s for s in statements(scope) if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)]
    before = [s for s in calls if after < s.lineno < use.line and old in (_text(s), _text(s).partition("(")[0])]
    always = [s for s in before if any(covers(o, use.line) for o in source.node_block(s)[0])]
    found = [n for s in always for n, at in _targets(s) if at == position and n not in (name, *loads)]
    return found[0] if len(found) == 1 else ""


def _text(statement: ast.stmt | None) -> str:
    value = getattr(statement, "value", None)
    return ast.unparse(value) if isinstance(value, ast.Call) else ""


def _targets(statement: ast.stmt | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names that an assignment binds, each with its place in what is taken apart."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        for i, element in enumerate(target.elts if isinstance(target, ast.Tuple | ast.List) else [target]):
            if isinstance(element, ast.Name):
                yield element.id, () if element is target else (i,)


def _instead(found: Sequence[New]) -> list[Remedy]:
    old, new = (listing(f"`{name}`" for name in dict.fromkeys(f[i] for f in found)) for i in (1, 2))
    note = f"The loss then uses what its own pass has computed; so far nothing reads {new}."
    edits = [edit_at("use_instead", at, operand=name, name=twin) for at, name, twin in found]
    return together(edits, f"use {new}, computed for this loss, in place of {old}", "unsafe", note)
