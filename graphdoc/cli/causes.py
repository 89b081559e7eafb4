"""``graphdoc causes``: the catalogue as a table, as JSON or as a Markdown table."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from graphdoc.cli.output import put
from graphdoc.errors import UsageError


def command(
    fmt: Annotated[str, typer.Option("--format", metavar="table|json|markdown", help="How to list them.")] = "table",
) -> None:
    """List the causes that graphdoc knows. `graphdoc explain CODE` shows the page of one."""
    if fmt not in ("table", "json", "markdown"):
        raise UsageError(f"unknown format {fmt!r}; the formats are table, json, markdown")
    from graphdoc.causes import all_causes

    rows = [(c.code, c.slug, c.title) for c in all_causes()]
    if fmt == "json":
        entries = [{"code": code, "cause": slug, "title": title} for code, slug, title in rows]
        text = json.dumps(entries, indent=2) + "\n"
    elif fmt == "markdown":
        head = "| code | cause | what it is |\n|---|---|---|\n"
        text = head + "".join(f"| {code} | {slug} | {_cell(title)} |\n" for code, slug, title in rows)
    else:
        wide = max((len(slug) for _, slug, _ in rows), default=0)
        text = "".join(f"{code}  {slug:<{wide}}  {title}\n" for code, slug, title in rows)
    put(text, sys.stdout)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
