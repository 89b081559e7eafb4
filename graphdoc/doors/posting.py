"""A review is posted: one request to GitHub's interface, at the place that a job is told (GITHUB_API_URL)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

PLACE = "https://api.github.com"
LONGEST = 60.0
"""Seconds that an answer may take."""


class PostError(Exception):
    """The review was not taken; ``str()`` of it is one line that says why, with the server's own words."""


def post(review: dict[str, Any], *, place: str, repository: str, number: int, token: str) -> None:
    """Create this review of pull request ``number`` of ``repository`` (``owner/name``).

    The request is that of "create a review for a pull request": https://docs.github.com/rest/pulls/reviews

    Raises:
        PostError: it was refused, or nobody answers.
    """
    request = urllib.request.Request(
        f"{place.rstrip('/')}/repos/{repository}/pulls/{number}/reviews",
        json.dumps(review).encode(),
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": "graphdoc",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=LONGEST):
            pass
    except urllib.error.HTTPError as e:
        raise PostError(f"{e.code} {_said(e.read(10_000)) or e.reason}") from e
    except (OSError, ValueError) as e:  # URLError is an OSError; a place that is no URL is a ValueError
        raise PostError(str(getattr(e, "reason", e))) from e


def _said(answer: bytes) -> str:
    """``message`` and ``errors`` of an answer, in one line."""
    try:
        told = json.loads(answer)
        errors = [e if isinstance(e, str) else str(e.get("message", e)) for e in told.get("errors", [])]
        return " ".join(": ".join([str(told["message"]), *errors[:3]]).split())
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""
