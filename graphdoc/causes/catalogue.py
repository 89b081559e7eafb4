"""The catalogue of all causes as rows, as JSON data and as Markdown: docs/causes.md and docs/causes/."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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

_PARTS = {
    "what_happened": "What happened",
    "why": "{why}",
    "example": "Example",
    "use_instead": "Use instead",
    "fix_safety": "Fix safety",
    "not_this": "When it is not this",
}
"""The parts of a page, with their headings."""

_HEAD = """\
# The causes

Every way of failing that graphdoc knows. The page of each says what happened, why, and what to write instead;
`graphdoc explain CODE` shows it in a terminal.

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
            **{part: getattr(c.page, part).strip() for part in _PARTS},
            "references": [{"title": title, "url": url} for title, url in map(link, c.page.references)],
        }
        for c in causes
    ]


def page_as_markdown(cause: Entry) -> str:
    """The page of one cause."""
    page = cause.page
    parts = [f"# {cause.code} `{cause.slug}`", f"**{cause.title}**"]
    for part, heading in _PARTS.items():
        told = getattr(page, part).strip()
        code = part in ("example", "use_instead")
        parts += [f"## {heading.format(why=_WHY.get(cause.code[:3], 'Why PyTorch refuses'))}"]
        parts += [f"```python\n{told}\n```" if code else told]
    if page.references:
        parts += ["## References", "\n".join(f"- [{title}]({url})" for title, url in map(link, page.references))]
    return "\n\n".join(parts) + "\n"


def as_markdown(causes: Iterable[Entry]) -> str:
    """The table of contents, in groups; each row leads to a page."""
    every = list(causes)
    parts = [_HEAD]
    for heading in dict.fromkeys(group(c) for c in every):
        table = [f"## {heading}\n", "| code | cause | in one line |", "|---|---|---|"]
        table += [
            f"| [{c.code}](causes/{c.code}.md) | `{c.slug}` | {c.title.replace('|', chr(92) + '|')} |"
            for c in every
            if group(c) == heading
        ]
        parts.append("\n".join(table) + "\n")
    return "\n".join(parts)
