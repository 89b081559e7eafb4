"""Pages of causes that only a test has."""

from __future__ import annotations

from typing import Any

from graphdoc.causes.base import Page

_EMPTY = dict.fromkeys(("what_happened", "why", "example", "use_instead", "fix_safety", "not_this"), "")


def page(**told: Any) -> Page:
    """A page that says what is given and nothing else."""
    return Page(**_EMPTY | told)
