"""The catalogue: docs/causes.md is what the causes say today, and the other forms carry the same."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from graphdoc.causes import all_causes
from graphdoc.causes.catalogue import GROUPS, as_json, as_markdown, group, page_as_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs" / "causes.md"


def test_docs_page_is_not_stale() -> None:
    """Re-bless with GRAPHDOC_BLESS=1."""
    text = as_markdown(all_causes())
    if os.environ.get("GRAPHDOC_BLESS"):
        DOCS.write_text(text, encoding="utf-8")
    assert DOCS.read_text(encoding="utf-8") == text


def test_every_link_of_the_table_leads_to_a_heading() -> None:
    text = as_markdown(all_causes())
    # As GitHub makes anchors: lower case, punctuation dropped, blanks to hyphens.
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("## ")
    }
    targets = re.findall(r"\]\(#([^)]+)\)", text)
    assert len(targets) == len(all_causes())
    assert set(targets) <= headings


def test_json_lists_every_cause() -> None:
    causes = all_causes()
    data = json.loads(json.dumps(as_json(causes)))
    assert [d["cause"] for d in data] == [c.slug for c in causes]
    assert all(d["why"] and d["use_instead"] for d in data)


def test_groups_follow_the_codes() -> None:
    assert all(group(c) == GROUPS[c.code[:3]] for c in all_causes())


def test_a_page_has_its_sections_in_order() -> None:
    page = page_as_markdown(all_causes()[0])
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings[1:] == [
        "## What happened",
        "## Why PyTorch refuses",
        "## Example",
        "## Use instead",
        "## Fix safety",
        "## When it is not this",
        "## References",
    ]
    assert headings[0].startswith(f"# {all_causes()[0].code} ")
