"""What a fix says of itself, and is judged by when it is tried: one set, handed on as it is."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields

from graphdoc.fixes.fix_kind import Args
from graphdoc.fixes.kinds import kinds


@dataclass(frozen=True)
class Traits:
    """The file of a kind names those that hold by a constant (``KEEPS_NUMBERS = True``), or by a function of the same
    name in small letters where its arguments tell. A new trait is a field here, and whoever asks for it.

    Args:
        keeps_numbers: it leaves every number of the forward pass as the program has it.
        keeps_loss: it gives the loss its graph back, or takes a write out of its way, and leaves its value alone.
        only_records: it lets more be recorded or differentiated, and nothing less.
        only_forgets: it lets go of a value that is set anew; it can take no gradient away.
        clears: it, or a part of it, clears gradients on purpose.
        of_caller: numbers may be others than in the original, which wrote into a tensor of its caller's.
    """

    keeps_numbers: bool = False
    keeps_loss: bool = False
    only_records: bool = False
    only_forgets: bool = False
    clears: bool = False
    of_caller: bool = False


NO_TRAITS = Traits()
_OF_ANY_PART = frozenset({"clears", "of_caller"})
"""Traits of a fix that one of several edits gives to the whole; the others are those of every edit."""


def traits_of(kind: str, args: Args) -> Traits:
    """What the file of a kind, or of each of several edits, says of it."""
    parts = _parts(kind, args)
    told: dict[str, bool] = {}
    for trait in (f.name for f in fields(Traits)):
        among = any if trait in _OF_ANY_PART else all
        told[trait] = bool(parts) and among(_says(k, a, trait) for k, a in parts)
    return Traits(**told)


def _parts(kind: str, args: Args) -> list[tuple[str, Args]]:
    if kind != "several":
        return [(kind, args)]
    return [part for p in args.get("edits", ()) for part in _parts(str(p["kind"]), p["args"])]


def _says(kind: str, args: Args, trait: str) -> bool:
    if trait == "of_caller":  # of any kind: the remedy knows whose tensor it was
        return bool(args.get("caller"))
    if kind not in kinds():
        return False
    module = importlib.import_module(f"graphdoc.fixes.{kind}")
    asked = getattr(module, trait, None)
    return bool(asked(args) if asked is not None else getattr(module, trait.upper(), False))
