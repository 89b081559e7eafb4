"""What a fix says of itself, and is judged by when it is tried: one set, handed on as it is."""

from __future__ import annotations

from dataclasses import dataclass, fields

from graphdoc.finding import Remedy
from graphdoc.fixes.fix_kind import Args
from graphdoc.fixes.kinds import known
from graphdoc.model import Safety


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
