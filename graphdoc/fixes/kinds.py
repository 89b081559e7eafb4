"""The kinds of fix by their names, and the text that one, or several of them, make of the sources."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

import graphdoc.fixes
from graphdoc.fixes.fix_kind import KINDS, Args, CannotFix, Kind, Sources, kind, required
from graphdoc.source.layout import Unplaceable
from graphdoc.source.module import Source
from graphdoc.source.places import Edit


@cache
def known() -> Mapping[str, Kind]:
    """All kinds by their names. A new kind is a new function, or a new file, and no other change."""
    for info in pkgutil.iter_modules(graphdoc.fixes.__path__):
        importlib.import_module(f"graphdoc.fixes.{info.name}")
    return KINDS


def edits(kind: str, sources: Sources, args: Args) -> list[Edit]:
    """The edits of one kind, not yet made.

    Raises:
        CannotFix: the kind does not exist or does not apply; the message says why.
    """
    found = known().get(kind)
    if found is None:
        raise CannotFix(f"there is no kind of fix called {kind!r}")
    try:
        return found.edit(sources, args)
    except Unplaceable as e:
        raise CannotFix(str(e)) from e
    except RecursionError as e:
        raise CannotFix("the source is too deeply nested there") from e


@kind("several")
def several(sources: Sources, args: Args) -> list[Edit]:
    """Several edits as one patch; where one of them cannot be made, none is.

    Args:
        edits: list of ``{"kind": …, "args": …}``. All positions refer to the original text; an edit asked for twice is
            made once.
    """
    found: list[list[Edit]] = []
    for part in required(args, "edits"):
        own = edits(str(part["kind"]), sources, part["args"])
        if own not in found:
            found.append(own)
    if not found:
        raise CannotFix("no edit was asked for")
    return list(dict.fromkeys(e for own in found for e in own))


def build(kind: str, sources: Sources, args: Args, placeholders: Iterable[str] = ()) -> dict[str, str]:
    """The new text of every file that this fix changes.

    Raises:
        CannotFix: it does not apply, changes nothing, would leave a file that does not parse, or one of its
            ``placeholders`` is a name that the program has.
    """
    texts = apply(sources, edits(kind, sources, args))
    for name in placeholders:
        word = re.compile(rf"\b{re.escape(name)}\b")
        if any(word.search(source.text) for source in sources.values()):
            raise CannotFix(f"`{name}`, the name to fill in, means something in the program")
        if not any(word.search(text) for text in texts.values()):
            raise CannotFix(f"`{name}`, the name to fill in, has no place in the patch")
    return texts


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
        if not Source(file, text).parses:
            raise CannotFix(f"the change would leave {file} unparsable")
        changed[file] = text
    if not changed:
        raise CannotFix("nothing is left to change")
    return changed
