"""The kinds of fix by their names: the text that one, or several of them, make of the sources, and their traits."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache

import graphdoc.fixes
from graphdoc.finding import Remedy
from graphdoc.fixes.fix_kind import KINDS, Args, CannotFix, Kind, Sources, kind, required
from graphdoc.model import Safety
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


# What a fix says of itself, and is judged by when it is tried: one set, handed on as it is.


@dataclass(frozen=True)
class Traits:
    """A kind names those that hold where it makes itself known (``@kind("rsample", keeps_numbers=True)``); where its
    arguments tell, by a function of them. A new trait is a field here, and whoever asks for it.

    Args:
        keeps_numbers: it leaves every number of the forward pass as the program has it.
        keeps_loss: it gives the loss its graph back, or takes a write out of its way, and leaves its value alone.
        keeps_finite: it bounds what is not finite, and leaves every step before that as it is.
        only_records: it lets more be recorded or differentiated, and nothing less.
        only_forgets: it lets go of a value that is set anew; it can take no gradient away.
        clears: it, or a part of it, clears gradients on purpose.
        runs_again: it, or a part of it, runs a computation once more beside the first time, for another loss.
        only_shown: what it changes is printed and goes nowhere else, so that no gradient depends on it.
        constant: what it takes out of the graph was found to be meant as a constant of the loss.
        of_caller: numbers may be others than in the original, which wrote into a tensor of its caller's.
    """

    keeps_numbers: bool = False
    keeps_loss: bool = False
    keeps_finite: bool = False
    only_records: bool = False
    only_forgets: bool = False
    clears: bool = False
    runs_again: bool = False
    only_shown: bool = False
    constant: bool = False
    of_caller: bool = False


NO_TRAITS = Traits()
_OF_ANY_PART = frozenset({"clears", "of_caller", "runs_again"})
"""Traits of a fix that one of several edits gives to the whole; the others are those of every edit."""


def traits_of(kind: str, args: Args) -> Traits:
    """What a kind, or that of each of several edits, says of itself."""
    parts = _parts(kind, args)
    told: dict[str, bool] = {}
    for trait in (f.name for f in fields(Traits)):
        among = any if trait in _OF_ANY_PART else all
        told[trait] = bool(parts) and among(_says(k, a, trait) for k, a in parts)
    return Traits(**told)


def safety_of(remedy: Remedy, compared: bool) -> Safety:
    """What a fix may be called. ``compared``: its gradients have been, or can be, compared with those of the program as
    it is written; without that only what no gradient depends on is safe.
    """
    if remedy.safety != "safe" or compared or traits_of(remedy.kind, remedy.args).only_shown:
        return remedy.safety
    return "unsafe"


def _parts(kind: str, args: Args) -> list[tuple[str, Args]]:
    if kind != "several":
        return [(kind, args)]
    return [part for p in args.get("edits", ()) for part in _parts(str(p["kind"]), p["args"])]


def _says(kind: str, args: Args, trait: str) -> bool:
    if trait in ("constant", "of_caller", "only_shown"):  # of any kind: the remedy knows what becomes of the tensor
        return bool(args.get("caller" if trait == "of_caller" else trait))
    told = known()[kind].traits.get(trait, False) if kind in known() else False
    return told if isinstance(told, bool) else told(args)
