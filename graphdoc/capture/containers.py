"""What a container holds, read as Python's own: a class of the program's may index and iterate in its own way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any


def elements(value: Any, most: int | None = None) -> list[Any]:
    """The elements of a tuple, list or deque, the values of a dict; none of its class's methods is called."""
    mro = type(value).__mro__
    for base in (tuple, list, deque):
        if base in mro:
            return list(islice(base.__iter__(value), most))
    return list(islice(dict.values(value), most)) if dict in mro else []


def size(value: Any) -> int:
    """How many elements a tuple, list, deque or dict has."""
    mro = type(value).__mro__
    return next((base.__len__(value) for base in (tuple, list, deque, dict) if base in mro), 0)


def numbers_in(value: Any, depth: int = 6) -> Iterator[Any]:
    """What lies in lists within lists, as ``tolist`` gives them."""
    for inner in elements(value):
        if isinstance(inner, list | tuple) and depth:
            yield from numbers_in(inner, depth - 1)
        else:
            yield inner
