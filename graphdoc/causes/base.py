"""What a cause is: its code, its page and its recogniser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.finding import Finding
    from graphdoc.program.observed import Program


@dataclass(frozen=True)
class Page:
    """The text of ``graphdoc explain CODE``, in Markdown; every part is mandatory and says its thing once.

    ``example`` and ``use_instead`` are Python source without fences. ``references`` are (title, URL) pairs into
    PyTorch's own documentation.
    """

    what_happened: str
    why: str
    example: str
    use_instead: str
    fix_safety: str
    not_this: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Entry:
    """What the catalogue tells of a cause."""

    code: str
    slug: str
    title: str
    page: Page


@dataclass(frozen=True)
class Cause(Entry):
    """One entry of the catalogue, with the test that recognises it in a run.

    ``families`` are the message families (see ``graphdoc.messages``) in which it can be the answer. Where the exception
    is none of autograd's, the recogniser is asked only if it names none, or if it names ``silent`` and something was
    seen before the program ended.
    """

    recognise: Callable[[Program], Finding | None]
    families: tuple[str, ...] = ()
