"""Whether an error can be one of autograd's: asked where the engine raised, before anything at all is looked at."""

from __future__ import annotations

import re

_TYPES = (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError)
_MOST = 4_000
"""Characters of a message that are read."""

# Words that every message of the engine about a graph has. Too many match than too few: what is let through is looked
# at once, and what ends the program without having been looked at is looked at then, as every exception is.
_WORDS = re.compile(
    r"grad|backward|in-?place|in place|\bleaf\b|differentia|derivative|saved|recompute|checkpoint|inference"
    r"|\bnan\b|hook|reduction|marked as ready|\bvariables?\b|\bbuffers?\b|mutat|found dtype|\bgraph\b|\bviews?\b"
    r"|storage of size 0$",
    re.IGNORECASE,
)


def is_ours(error: BaseException) -> bool:
    """True for an exception whose type and words autograd uses. Memory that has run out is never its fault."""
    if not isinstance(error, _TYPES) or "OutOfMemory" in type(error).__name__:
        return False
    return _WORDS.search(text_of(error), 0, _MOST) is not None


def text_of(error: BaseException) -> str:
    """``str(error)``, whatever the class of the exception does when asked."""
    try:
        return str(error)
    except Exception:
        return ""


def chain_of(error: BaseException) -> list[BaseException]:
    """The exception and those that it was raised from or while handling, outermost first."""
    out: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and not any(current is e for e in out) and len(out) < 20:
        out.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return out
