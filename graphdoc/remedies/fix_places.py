"""Whether a fix can be had: at the place of a frame, written into the sources, and under which title."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy, remedy_at
from graphdoc.model import Safety
from graphdoc.program.bindings import call_at, source_at, statement_at, text_of
from graphdoc.program.spans import place, where
from graphdoc.source.edits import spot
from graphdoc.source.module import Source
from graphdoc.source.paths import covers
from graphdoc.source.places import Edit, Instead, Place


def frame_at(edit: Mapping[str, Any]) -> Frame:
    """The place of such an edit; the function around it is not told."""
    return Frame(**edit["args"]["place"])


def one_a_statement(sources: SourceTexts, places: Iterable[Frame]) -> list[Frame]:
    """The first place in each statement: an edit of a statement changes all that it holds."""
    out: list[Frame] = []
    done: list[tuple[str, ast.stmt]] = []
    for at in places:
        around = statement_at(sources, at)
        if around is not None and not any(file == at.file and covers(s, at.line) for file, s in done):
            done.append((at.file, around))
            out.append(at)
    return out


def to_finish(
    frame: Frame | None, kind: str, title: str, note: str, placeholders: Mapping[str, str], **args: Any
) -> tuple[Remedy, ...]:
    """A remedy like that of ``remedy_at`` that its user has to finish: each of ``placeholders`` is a name in ``args``
    that the program does not have, with what is to be written in its place."""
    found = remedy_at(frame, kind, title, "placeholders", note, **args)
    return tuple(replace(r, placeholders=dict(placeholders)) for r in found)


def again_behind(
    forwards: Sequence[Frame], write: Frame, call: Frame, title: str, note: str, constants: Sequence[Frame] = ()
) -> Remedy:
    """What these lines compute, again behind a write, for the loss of a backward call; see ``recompute_after``."""
    args: dict[str, Any] = {"places": [place(f) for f in forwards], "after": place(write), "backward": place(call)}
    if constants:
        args["constants"] = [place(f) for f in constants]
    return Remedy("recompute_after", title, "unsafe", note, args)


def flag_set(
    call: Frame, title: str, note: str, safety: Safety = "safe", left: str = "", flag: str = "retain_graph"
) -> Remedy:
    """A flag of a call set to True; ``title`` lacks the place."""
    args = {"place": place(call), "name": flag, "value": "True"}
    return Remedy("set_keyword", f"{title} at {where(call)}", safety, note, args, left)


def through_wrapper(sources: SourceTexts, frame: Frame, wrapper: str, safety: Safety, note: str) -> tuple[Remedy, ...]:
    """The call at a place made of what wraps the module that it calls: ``model.module(x)`` → ``model(x)``."""
    call = call_at(sources, frame)
    args = {"operand": text_of(call.func) if call is not None else "", "name": wrapper, "inside": True}
    return remedy_at(frame, "use_instead", f"call `{wrapper}` itself", safety, note, **args)


def listed_lines(frames: Sequence[Frame]) -> str:
    """The first lines of some places, for a title."""
    return ", ".join(dict.fromkeys(where(f) for f in frames[:3]))


def parsed(sources: SourceTexts) -> dict[str, Source]:
    """The program's files as the kinds of fix take them."""
    return {file: Source(file, text) for file, text in sources.items()}


# Whether a proposed fix can be written into the sources of the run, and which of several are the same.


def applies(sources: SourceTexts, remedy: Remedy) -> bool:
    """Whether the fix can be written into the sources of the run."""
    return written(sources, remedy) is not None


def written(sources: SourceTexts, remedy: Remedy) -> list[Edit] | None:
    """The edits of a fix in the sources of the run; None where it cannot be written there."""
    from graphdoc.fixes.fix_kind import CannotFix
    from graphdoc.fixes.kinds import edits

    try:
        return edits(remedy.kind, parsed(sources), remedy.args)
    except CannotFix:
        return None


def unique(remedies: list[Remedy]) -> list[Remedy]:
    out: list[Remedy] = []
    for r in remedies:
        if not any(o.kind == r.kind and o.args == r.args for o in out):
            out.append(r)
    return out


# What a fix is called that computes a value where it is used: a statement that something else still reads stays.


def titled(sources: SourceTexts, remedy: Remedy, made: Frame, there: str) -> Remedy:
    """The remedy with its title: statements are moved, or what ``made`` stands for is computed ``there`` too."""
    moved = _moved(sources, remedy, made)
    first, *others = moved or [made.line]
    lines = ", ".join([where(replace(made, line=first)), *map(str, others)])
    how = f", as {where(made)} does" if made.line not in moved else f": move {lines} into it"
    return replace(remedy, title=f"compute it {there}{how}")


def _moved(sources: SourceTexts, remedy: Remedy, made: Frame) -> list[int]:
    """The lines, of the file of ``made``, of the statements that are taken away; as if that was all, where the fix
    cannot be written."""
    source = source_at(sources, made)
    changes = written(sources, remedy) if source.node_statement(Place.of(made)) is not None else None
    if changes is None:
        return [made.line]
    gone = [e.at for e in changes if e.file == made.file and e.at is not None and isinstance(e.change, Instead)]
    return sorted({n.lineno for n in source.node_statements() if any(at.holds(spot(source, n)) for at in gone)})


def left_open(remedy: Remedy, why: str) -> Remedy:
    """The remedy, not to be called verified for one more reason."""
    return replace(remedy, open="; and ".join(filter(None, (remedy.open, why))))
