"""The kinds of fix: every module of this package that defines ``KIND`` is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache

import graphdoc.fixes
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources
from graphdoc.source.layout import Unplaceable
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

Editor = Callable[[Sources, Args], list[Edit]]


@cache
def kinds() -> tuple[str, ...]:
    """The names of all kinds. A new kind is a new file here and no other change."""
    names = (info.name for info in pkgutil.iter_modules(graphdoc.fixes.__path__))
    return tuple(sorted(n for n in names if _editor(n) is not None))


@cache
def _editor(kind: str) -> Editor | None:
    name = f"graphdoc.fixes.{kind}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name == name:
            return None
        raise
    editor: Editor | None = getattr(module, "edit", None) if getattr(module, "KIND", None) == kind else None
    return editor


def edits(kind: str, sources: Sources, args: Args) -> list[Edit]:
    """The edits of one kind, not yet made.

    Raises:
        CannotFix: the kind does not exist or does not apply; the message says why.
    """
    editor = _editor(kind) if kind.isidentifier() else None
    if editor is None:
        raise CannotFix(f"there is no kind of fix called {kind!r}")
    try:
        return editor(sources, args)
    except Unplaceable as e:
        raise CannotFix(str(e)) from e
    except RecursionError as e:
        raise CannotFix("the source is too deeply nested there") from e


def build(kind: str, sources: Sources, args: Args) -> dict[str, str]:
    """The new text of every file that this fix changes.

    Raises:
        CannotFix: it does not apply, changes nothing, or would leave a file that does not parse.
    """
    return apply(sources, edits(kind, sources, args))


def apply(sources: Sources, wanted: Iterable[Edit]) -> dict[str, str]:
    """Make the edits and check the result (see ``build``)."""
    from graphdoc.source import concrete  # libcst is loaded where a patch is made, and nowhere else

    by_file: dict[str, list[Edit]] = defaultdict(list)
    for edit in wanted:
        by_file[edit.file].append(edit)
    changed: dict[str, str] = {}
    for file, own in by_file.items():
        source = sources[file]
        try:
            text = concrete.rewritten(source, own)
        except concrete.OverlappingEdits as e:
            raise CannotFix(f"two changes to {file} meet at the same place") from e
        except (concrete.Unreadable, Unplaceable) as e:
            raise CannotFix(str(e)) from e
        except RecursionError as e:
            raise CannotFix("the source is too deeply nested there") from e
        if text == source.text:
            continue
        if Source(file, text).tree is None:
            raise CannotFix(f"the change would leave {file} unparsable")
        changed[file] = text
    if not changed:
        raise CannotFix("nothing is left to change")
    return changed
