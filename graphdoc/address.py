"""The address of a cause's page: where this installation's own documents lie, as far as it knows.

A release names its documents in pyproject's ``Documentation``. An installation from a repository
(``pip install git+https://…@COMMIT``) has left where it came from, and the same commit has the page that belongs to it.
"""

from __future__ import annotations

import json
from functools import cache

_NAME = "torch-graphdoc"
_CODE = "{code}"
"""Stands in an address for the code of a cause."""


def page_address(code: str) -> str:
    """The address of a cause's page; empty where this installation knows none."""
    return _pages().replace(_CODE, code)


@cache
def _pages() -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        ours = distribution(_NAME)
    except PackageNotFoundError:  # a folder on the path
        return ""
    named = [value.split(", ", 1) for value in ours.metadata.get_all("Project-URL") or ()]
    site = next((url for label, url in named if label == "Documentation"), "")
    return f"{site.rstrip('/')}/causes/{_CODE}.html" if site else pages_of(ours.read_text("direct_url.json") or "{}")


def pages_of(direct_url: str) -> str:
    """The pages of the causes in the repository that pip's ``direct_url.json`` names, at that commit."""
    try:
        origin = json.loads(direct_url)
        url, commit = origin["url"], origin["vcs_info"]["commit_id"]
    except (ValueError, KeyError, TypeError):
        return ""
    public = isinstance(url, str) and url.startswith("https://") and "@" not in url
    return f"{url.removesuffix('/').removesuffix('.git')}/blob/{commit}/docs/causes/{_CODE}.md" if public else ""
