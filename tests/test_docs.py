"""The pages of docs/: every link leads somewhere, every page is in the site, and the site can be built."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from graphdoc.causes import all_causes

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and MkDocs make them, and those that it sets itself."""
    text = page.read_text(encoding="utf-8")
    tokens = PARSER.parse(text)
    titles = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    named = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return named | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def links(page: Path) -> list[str]:
    """Where a page's links lead."""
    found = []
    for token in PARSER.parse(page.read_text(encoding="utf-8")):
        found += [str(c.attrs["href"]) for c in token.children or () if c.type == "link_open"]
    return found


def test_no_link_is_dead() -> None:
    assert not {page.name: dead for page in PAGES if (dead := dead_links(page))}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in links(page):
        if re.match(r"https?://", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


def test_every_page_is_in_the_site_and_on_its_first_page() -> None:
    def files(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        assert not isinstance(values, (int, float, type(None)))
        return [file for value in values for file in files(value)]  # type: ignore[attr-defined]

    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert set(files(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])) == pages
    assert {*(link.partition("#")[0] for link in links(ROOT / "docs" / "index.md")), "index.md"} == pages


@pytest.mark.breadth(1)
@pytest.mark.parametrize("command", ["run", "fix", "show"])
def test_the_options_of_a_command_are_told(command: str) -> None:
    words = [sys.executable, "-m", "graphdoc", command, "--help"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    told = (ROOT / "docs" / "commands.md").read_text()
    options = set(re.findall(r"(?m)^ +(?:-h, )?(--[a-z-]+)", said)) - {"--help"}
    assert options and not {o for o in options if o not in told and not o.startswith("--no-")}


def test_the_problem_matcher_reads_a_finding() -> None:
    task = json.loads(re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "editors.md").read_text(), re.DOTALL)[0])[
        "tasks"
    ][0]
    pattern = task["problemMatcher"]["pattern"]
    said = (ROOT / "tests/render/golden/files-github.txt").read_text().splitlines()
    found = re.match(pattern["regexp"], said[0])
    assert found
    told = {part: found[number] for part, number in pattern.items() if part != "regexp"}
    assert told["code"].startswith("GD") and told["file"].endswith(".py") and not told["message"].endswith(":")
    assert int(told["line"]) <= int(told["endLine"]) and int(told["column"]) < int(told["endColumn"])
    assert not re.match(pattern["regexp"], "::notice title=graphdoc::no graph")


@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").exists()


def test_readme_names_every_code() -> None:
    ranges = re.findall(r"GD(\d)(\d\d)–\d(\d\d)", (ROOT / "README.md").read_text())
    named = {f"GD{n}" for group, first, last in ranges for n in range(int(group + first), int(group + last) + 1)}
    assert named == {cause.code for cause in all_causes()}
