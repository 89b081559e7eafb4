"""A cause that several signs speak for: the first of them whose story can be told."""

from __future__ import annotations

from collections.abc import Callable

from graphdoc.evidence import Sign
from graphdoc.finding import Finding
from graphdoc.program.signs import signs

Story = Callable[[Sign], Finding | None]
"""What tells a sign; None where it does not know enough to."""


def first_told(seen: list[Sign], *stories: tuple[str, Story]) -> Finding | None:
    """The first finding in the order of the stories, each of which is for one kind of sign."""
    told = (story(sign) for kind, story in stories for sign in signs(seen, kind))
    return next((finding for finding in told if finding is not None), None)
