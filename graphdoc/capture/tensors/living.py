"""Weak references to the user's tensors, and what is kept by the ids of tensors that may end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any


class Ref(weakref.ref[Any]):
    """A weak reference of ours, which can be told from the program's own."""

    __slots__ = ()


def let_swap(utils: Any) -> Callable[[], None]:
    """Let ``torch.utils.swap_tensors`` take tensors to which only references of ours lead: it refuses any other.

    Returns what undoes it.
    """
    theirs = utils.weakref
    seen = ModuleType(theirs.__name__)
    seen.__dict__.update(theirs.__dict__)
    seen.__dict__["getweakrefs"] = lambda tensor: [r for r in theirs.getweakrefs(tensor) if type(r) is not Ref]
    utils.weakref = seen
    return lambda: setattr(utils, "weakref", theirs)


class Living:
    """A tensor may get the id of one that has ended: what was kept under that id is then forgotten.

    Args:
        now: how many events there have been.
        forget: is told of ids that are another tensor's now.
    """

    def __init__(self, now: Callable[[], int], forget: Callable[[set[int]], None]) -> None:
        self._now, self._forget = now, forget
        self._refs: dict[int, Ref] = {}
        self._since: dict[int, int] = {}
        """By id: how many events there had been when another tensor was first seen with it."""
        self._kept: list[dict[int, Any] | set[int]] = []

    def forgetting(self, kept: Any) -> Any:
        """A set of ids, or a dict by id, that forgets tensors which have ended; those must be noted."""
        self._kept.append(kept)
        return kept

    def note(self, tensors: Iterable[Any]) -> None:
        """Know these by their ids from now on."""
        again = set()
        for tensor in tensors:
            ref = self._refs.get(id(tensor))
            if ref is None or ref() is not tensor:
                self._refs[id(tensor)] = Ref(tensor)
                if ref is not None:
                    again.add(id(tensor))
        if again:
            self._since.update(dict.fromkeys(again, self._now()))
            for kept in self._kept:
                for ident in again.intersection(kept):
                    kept.pop(ident) if isinstance(kept, dict) else kept.remove(ident)
            self._forget(again)

    def then(self, ids: frozenset[int], event: int) -> frozenset[int]:
        """The ids that were noted at an event, those that are another tensor's now as numbers that are no id."""
        since = self._since
        return ids if since.keys().isdisjoint(ids) else frozenset(-i if since.get(i, 0) > event else i for i in ids)
