"""The catalogue: docs/causes.md and its pages are what the causes say today, and the other forms carry the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

from graphdoc.causes import all_causes, entry
from graphdoc.causes.catalogue import GROUPS, as_json, as_markdown, group, page_as_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_docs_pages_are_not_stale() -> None:
    """Re-bless with GRAPHDOC_BLESS=1."""
    texts = {f"causes/{c.code}.md": page_as_markdown(c) for c in all_causes()}
    texts["causes.md"] = as_markdown(all_causes())
    if os.environ.get("GRAPHDOC_BLESS"):
        for name, text in texts.items():
            (DOCS / name).write_text(text, encoding="utf-8")
    kept = [DOCS / "causes.md", *(DOCS / "causes").iterdir()]
    assert {file.relative_to(DOCS).as_posix(): file.read_text(encoding="utf-8") for file in kept} == texts


def test_an_entry_read_from_its_file_is_the_cause_s_own() -> None:
    for cause in all_causes():
        for name in (cause.code, f" {cause.code.lower()}", cause.slug):
            found = entry(name)
            assert found is not None
            assert (found.code, found.slug, found.title, found.page) == (
                cause.code,
                cause.slug,
                cause.title,
                cause.page,
            )
    assert entry("GD999") is None and entry("links") is None and entry("") is None


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


def test_where_nothing_is_refused_the_page_does_not_say_so() -> None:
    pages = {c.code: page_as_markdown(c) for c in all_causes()}
    refused = {code for code, page in pages.items() if "Why PyTorch refuses" in page}
    assert refused == {code for code in pages if code[:3] not in ("GD6", "GD7")}
    assert "## Why it is not finite" in pages["GD606"] and "## Why PyTorch says nothing" in pages["GD708"]


def test_titles_are_sentences() -> None:
    """But for those that begin with a name of PyTorch's."""
    small = {c.title.split()[0] for c in all_causes() if c.title[0].islower()}
    assert small == {"backward()", "retain_graph=True"}
