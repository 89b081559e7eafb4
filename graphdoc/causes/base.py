"""What a cause is: its page, with its code, and its recogniser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.causes.links import Link
    from graphdoc.finding import Finding
    from graphdoc.program.observed import Program


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a cause is called, and the text of ``graphdoc explain CODE``, in Markdown; every part says its thing once.

    ``families`` are the message families (see ``graphdoc.messages``) in which it can be the answer. Where the exception
    is none of autograd's, the recogniser is asked only if it names none, or if it names ``silent`` and something was
    seen before the program ended.

    ``example`` and ``use_instead`` are Python source without fences. ``references`` lead into PyTorch's own
    documentation, each as ``links.link`` takes it.
    """

    code: str
    title: str
    families: tuple[str, ...] = ()
    what_happened: str
    why: str
    example: str
    use_instead: str
    fix_safety: str
    not_this: str
    references: tuple[str | Link, ...] = ()


@dataclass(frozen=True)
class Entry:
    """What the catalogue tells of a cause. The slug is the name of its file."""

    slug: str
    page: Page

    @property
    def code(self) -> str:
        return self.page.code

    @property
    def title(self) -> str:
        return self.page.title


@dataclass(frozen=True)
class Cause(Entry):
    """One entry of the catalogue, with the test that recognises it in a run."""

    recognise: Callable[[Program], Finding | None]

    @property
    def families(self) -> tuple[str, ...]:
        return self.page.families
