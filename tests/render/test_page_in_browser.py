"""The page of every sick fixture in a real Chromium, light and dark: it reports nothing on its console, runs no script,
and every link of what the browser has made of it leads somewhere. Skipped where no Chromium is installed.

Where AXE_CORE names the file axe.min.js (`npm install axe-core`), axe finds nothing to say against it either."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from commands import graphdoc
from test_page import PAGES, Page, hostile

from graphdoc.render import render

pytestmark = pytest.mark.slow

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SICK = sorted(p.name for p in FIXTURES.iterdir() if (p / "train.py").exists() and not p.name.startswith("healthy"))
AXE = os.environ.get("AXE_CORE", "")
ASK_AXE = """
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
axe.run(document, {runOnly: tags, resultTypes: ["violations"]}).then(found => {
  const answer = document.createElement("pre");
  answer.id = "axe-answer";
  answer.textContent = JSON.stringify(found.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 200))]));
  document.body.append(answer);
});
"""
DARK = ("--blink-settings=preferredColorScheme=0", "--force-dark-mode")


def browse(page: Path, *options: str, width: int = 1400) -> subprocess.CompletedProcess[str]:
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    return subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--disable-dev-shm-usage", "--enable-logging=stderr", f"--user-data-dir={page.parent / 'profile'}"),
            *(f"--window-size={width},2000", *options, page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def objections(page: Path, *options: str, width: int) -> list[object]:
    """What axe says against the page; in a copy, for the page itself lets no script run."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    copy = page.with_name("asked.html")
    asked = f"<script src='{Path(AXE).as_uri()}'></script><script>{ASK_AXE}</script></body>"
    copy.write_text(text.replace("</body>", asked), encoding="utf-8")
    done = browse(copy, "--dump-dom", "--virtual-time-budget=20000", *options, width=width)
    (answer,) = re.findall(r'<pre id="axe-answer">(.*?)</pre>', done.stdout, re.DOTALL)
    return list(json.loads(html.unescape(answer)))


def check(page: Path) -> Page:
    """The page as the browser understands it, once it has nothing to complain of."""
    done = browse(page, "--dump-dom")
    assert not re.findall(r"^.*CONSOLE.*$", done.stderr, re.MULTILINE)
    found = Page(done.stdout)
    assert len(set(found.ids)) == len(found.ids)
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert not {"script", "img", "iframe", "object"} & set(found.tags)
    pictures: list[bytes] = []
    for options, width in (((), 1400), (DARK, 1400), ((), 420)):
        shot = page.with_name(f"{len(pictures)}.png")
        browse(page, f"--screenshot={shot}", *options, width=width)
        pictures.append(shot.read_bytes())
        assert not AXE or objections(page, *options, width=width) == []
    assert len(set(pictures)) == 3 and all(picture.startswith(b"\x89PNG") for picture in pictures)
    return found


def test_the_browser_reports_what_the_page_forbids(tmp_path: Path) -> None:
    """That the console is read at all."""
    page = tmp_path / "page.html"
    page.write_text(render(PAGES["ppo"], "html").replace("<h1>", "<h1 style='color: red'>"), encoding="utf-8")
    assert "CONSOLE" in browse(page, "--dump-dom").stderr


@pytest.mark.skipif(not AXE, reason="AXE_CORE does not say where axe is")
def test_axe_is_asked_at_all(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    faint = render(PAGES["ppo"], "html").replace("--ink: light-dark(#1f2328", "--ink: light-dark(#eeeeee")
    page.write_text(faint.replace(" aria-label='The drawn graph'", ""), encoding="utf-8")
    assert "color-contrast" in str(objections(page, width=1400))


def test_hand_made(tmp_path: Path) -> None:
    for name, report in {**PAGES, "hostile": hostile()}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "page.html").write_text(render(report, "html"), encoding="utf-8")
        assert "svg" in check(folder / "page.html").tags


@pytest.mark.parametrize("name", SICK)
def test_fixture(name: str, tmp_path: Path) -> None:
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    told = tomllib.loads((FIXTURES / name / "expect.toml").read_text(encoding="utf-8"))
    folder = tmp_path / name
    shutil.copytree(FIXTURES / name, folder)
    done = graphdoc(folder, "run", "--report", "html:page.html", "train.py")
    assert "graphdoc:" not in done.stderr.replace("graphdoc: running the program once more", "")
    found = check(folder / "page.html")
    assert told and {"graph", "source", "calls"} <= set(found.ids)
    assert [i for i in found.ids if i.startswith("b0")] and "svg" in found.tags
