"""The catalogue of all causes as rows, as JSON data and as the Markdown page docs/causes.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphdoc.address import anchor
from graphdoc.causes.base import Entry
from graphdoc.causes.links import link

GROUPS = {
    "GD1": "Trying to backward through the graph a second time",
    "GD2": "Modified by an in-place operation",
    "GD3": "No gradient",
    "GD4": "Gradients of gradients",
    "GD5": "Misuse of the API",
    "GD6": "Non-finite gradients",
    "GD7": "Nothing crashes, the training is wrong",
    "GD8": "Distributed, checkpoint, compile",
}

_WHY = {"GD6": "Why it is not finite", "GD7": "Why PyTorch says nothing"}
"""What the second section is called where nothing is refused."""

_HEAD = """\
# The causes

Every way of failing that graphdoc knows, with what happened, why, and what to write instead.
`graphdoc explain CODE` shows one of these pages; `graphdoc causes` lists them.

<!-- Made from graphdoc/causes/*/*.py by GRAPHDOC_BLESS=1 pytest tests/causes/test_catalogue.py -->
"""


def group(cause: Entry) -> str:
    """The heading under which a cause stands: what the user saw."""
    return GROUPS.get(cause.code[:3], "Other causes")


def as_json(causes: Iterable[Entry]) -> list[dict[str, Any]]:
    """The causes as plain data, ready for ``json.dumps``: everything a page has, and no recogniser."""
    return [
        {
            "code": c.code,
            "cause": c.slug,
            "title": c.title,
            "group": group(c),
            "what_happened": c.page.what_happened.strip(),
            "why": c.page.why.strip(),
            "example": c.page.example.strip(),
            "use_instead": c.page.use_instead.strip(),
            "fix_safety": c.page.fix_safety.strip(),
            "not_this": c.page.not_this.strip(),
            "references": [{"title": title, "url": url} for title, url in map(link, c.page.references)],
        }
        for c in causes
    ]


def page_as_markdown(cause: Entry, level: int = 1) -> str:
    """The page of one cause; ``level`` is the depth of its heading."""
    page, mark, sub = cause.page, "#" * level, "#" * (level + 1)
    parts = [
        f"{mark} {cause.code} `{cause.slug}`",
        f"**{cause.title}**",
        f"{sub} What happened",
        page.what_happened.strip(),
        f"{sub} {_WHY.get(cause.code[:3], 'Why PyTorch refuses')}",
        page.why.strip(),
        f"{sub} Example",
        f"```python\n{page.example.strip()}\n```",
        f"{sub} Use instead",
        f"```python\n{page.use_instead.strip()}\n```",
        f"{sub} Fix safety",
        page.fix_safety.strip(),
        f"{sub} When it is not this",
        page.not_this.strip(),
    ]
    if page.references:
        parts += [f"{sub} References", "\n".join(f"- [{title}]({url})" for title, url in map(link, page.references))]
    return "\n\n".join(parts) + "\n"


def as_markdown(causes: Iterable[Entry]) -> str:
    """The whole catalogue as one Markdown document: a table of contents in groups, then every page."""
    every = list(causes)
    parts = [_HEAD]
    for heading in dict.fromkeys(group(c) for c in every):
        table = [f"## {heading}\n", "| code | cause | in one line |", "|---|---|---|"]
        table += [
            f"| [{c.code}](#{anchor(c.code, c.slug)}) | `{c.slug}` | {c.title.replace('|', chr(92) + '|')} |"
            for c in every
            if group(c) == heading
        ]
        parts.append("\n".join(table) + "\n")
    parts += [page_as_markdown(c, level=2) for c in every]
    return "\n".join(parts)
