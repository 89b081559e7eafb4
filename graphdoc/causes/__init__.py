"""The catalogue: every module of a group's folder that has a ``PAGE`` and ``recognise`` is one cause."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from graphdoc.causes.base import Cause, Entry


@cache
def all_causes() -> tuple[Cause, ...]:
    """Every cause, ordered by code. A new cause is a new file here and no other change."""
    found = []
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        module = importlib.import_module(info.name)
        if hasattr(module, "PAGE"):
            slug = info.name.rpartition(".")[2].replace("_", "-")
            found.append(Cause(slug, module.PAGE, module.recognise))
    return tuple(sorted(found, key=lambda c: c.code))


def find(name: str) -> Cause | None:
    """The cause with this code or slug (case does not matter), or None."""
    wanted = name.strip().lower()
    return next((c for c in all_causes() if wanted in (c.code.lower(), c.slug)), None)


def entry(name: str) -> Entry | None:
    """What the catalogue tells of the cause with this code or slug, or None; only this one's file is read.

    Nothing that its recogniser needs is imported, which would take five times as long as all else that
    ``graphdoc explain`` does.
    """
    from graphdoc.causes.reading import file_of, read

    file = file_of(name.strip().lower(), __path__)
    return read(file) if file is not None else find(name)
