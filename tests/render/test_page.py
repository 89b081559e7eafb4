"""The page: what the program wrote stays text, every link leads somewhere, and it can do without a drawing."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from sample_reports import PPO

from graphdoc.model import Report, Span
from graphdoc.render import render
from graphdoc.render.page import graph_svg
from graphdoc.render.page.graph_svg import MISSING, lay_out
from graphdoc.render.page.source import coloured, words
from graphdoc.render.story import lead
from graphdoc.shapes import Arrow, Box, Curve, Moment, Picture

EVIL = "</title></svg></style><script>alert(1)</script>\" onload='x' x=\x1b[31m\ufffe`<img src=x>"
FILE = next(iter(PPO.sources))
DRAWN = Picture(
    boxes=(
        Box(0, "call", "backward #3", "the call that failed", FILE, 28, fatal=True),
        Box(1, "operations", "", "iteration 1", FILE, 19, (("Sub", 1), ("Mul", 17)), 18),
        Box(2, "operations", "", "", FILE, 18, (("Addmm", 2),), 2, "released", True, True),
        Box(3, "parameters", "policy.*", "4 parameters", nodes=4, optimizers=(7,), parameters=("policy.weight",)),
        Box(4, "parameters", "lost.*", "1 parameter", nodes=1, parameters=("lost.weight",)),
        Box(5, "write", "mul_", "version 2, 1 expected", FILE, 21, parameters=("h",)),
        Box(6, "operations", "operations without a place", nodes=3),
    ),
    arrows=(
        Arrow(0, 1),
        Arrow(1, 2, "fatal", 2),
        Arrow(2, 3),
        Arrow(2, 4),
        Arrow(5, 2, "overwrites"),
        Arrow(1, 6),
        Arrow(6, 6, "broken"),
    ),
    optimizers=((7, "policy.optimizer"),),
    moments=(
        Moment("forward", made=20),
        Moment("backward", FILE, 24, 0, 1),
        Moment("gap", skipped=4),
        Moment("step", FILE, 25, 0, 1, optimizer=7, text="overwrites `h`"),
        Moment("backward", FILE, 28, 1, 2, failed=True),
    ),
    before=(("backward", 3),),
    curves=(Curve("norm of the gradients", ((0, 1.0), (1, 1e6)), 3), Curve("size of the loss", ((0, 0.0), (1, 2.5)))),
    nodes=25,
)
PAGES = {"ppo": replace(PPO, picture=DRAWN)}


class Page(HTMLParser):
    """What a reader of HTML finds: ids, links, every attribute, the elements in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def page(report: Report) -> str:
    return render(report, "html")


def hostile() -> Report:
    """A report in which whatever can come from a program is markup."""
    picture = Picture(
        boxes=tuple(
            replace(b, text=EVIL if b.text else "", note=EVIL, file=EVIL if b.file else "", ops=((EVIL, 2),))
            for b in DRAWN.boxes
        ),
        arrows=DRAWN.arrows,
        optimizers=((7, EVIL),),
        moments=tuple(replace(m, kind=EVIL, file=EVIL, text=EVIL) for m in DRAWN.moments),
        before=((EVIL, 1),),
        curves=(replace(DRAWN.curves[0], title=EVIL),),
        gaps=(EVIL,),
    )
    spans = tuple(replace(s, file=EVIL, label=EVIL) for s in PPO.diagnoses[0].spans)
    diagnosis = replace(PPO.diagnoses[0], title=EVIL, explanation=EVIL, because=EVIL, facts=(EVIL,), spans=spans)
    sources = {EVIL: "\n".join([EVIL] * 40)}
    return replace(PPO, diagnoses=(diagnosis,), sources=sources, notes=(EVIL,), picture=picture)


@pytest.fixture(params=[True, False], ids=["drawn", "listed"])
def drawing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With and without the library that lays the graph out."""
    if request.param:
        pytest.importorskip("pygraphviz")
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return bool(request.param)


def test_every_link_leads_to_one_place_and_the_source_leads_back(drawing: bool) -> None:
    found = Page(page(PAGES["ppo"]))
    assert len(set(found.ids)) == len(found.ids)
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    lines = [link for link in found.links if link.startswith("#s0-")]
    assert {"#s0-28", "#s0-19", "#s0-18"} <= set(lines)
    assert {"#m1", "#m4"} <= set(found.links)
    assert {"#b0", "#b1", "#b2", "#b5"} <= set(found.links)


def test_what_comes_from_the_program_stays_text(drawing: bool) -> None:
    text = page(hostile())
    found = Page(text)
    assert not {"script", "img"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("style", "src")]
    assert "alert(1)" in found.text and "\x1b" not in text
    assert all(link[1:] in found.ids for link in found.links)


def test_no_style_but_its_own_and_no_script_is_allowed() -> None:
    text = page(PAGES["ppo"])
    style = text[text.index("<style>") + 7 : text.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall('Content-Security-Policy" content="([^"]*)"', text)
    assert f"style-src &#x27;sha256-{digest}&#x27;" in policy and "default-src &#x27;none&#x27;" in policy


def test_the_graph_is_a_list_where_it_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    text = page(PAGES["ppo"])
    assert "pip install &#x27;torch-graphdoc[page]&#x27;" in text and "<details open>" in text
    assert MISSING.startswith("The graph is listed")
    assert "fails at 3" in text and "overwrites 3" in text and "trained by no optimizer" in text


def test_a_drawing_names_what_it_shows_for_those_who_cannot_see_it() -> None:
    pytest.importorskip("pygraphviz")
    text = page(PAGES["ppo"])
    assert '<svg class="graph" role="group" aria-labelledby="graph-t graph-d"' in text
    assert "18 nodes, live: Sub 1, Mul 17" in text and "<summary>The graph as a list</summary>" in text


def test_a_library_that_fails_takes_the_drawing_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygraphviz")
    monkeypatch.setattr(graph_svg, "_DOT", "import os; os.abort()")
    assert lay_out([(10, 10)], []) is None
    monkeypatch.setattr(graph_svg, "_DOT", "print('node x y')")
    assert lay_out([(10, 10)], []) is None
    assert "The graph as a list" in page(PAGES["ppo"])


def test_a_layout_places_every_box_apart_from_the_others() -> None:
    pytest.importorskip("pygraphviz")
    sizes = [(100.0 + 10 * i, 40.0) for i in range(12)]
    found = lay_out(sizes, [(0, i, i != 5) for i in range(1, 12)] + [(3, 3, True)])
    assert found is not None and len(found.centres) == 12 and len(found.paths) == 12
    edges = [
        (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
        for (x, y), (w, h) in zip((found.centres[i] for i in range(12)), sizes, strict=True)
    ]
    for i, a in enumerate(edges):
        assert a[0] >= -1 and a[1] <= found.width + 1 and a[2] >= -1 and a[3] <= found.height + 1
        assert all(a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2] for b in edges[i + 1 :])


def test_a_drawing_fits_into_the_window_as_long_as_it_can_be_read() -> None:
    pytest.importorskip("pygraphviz")
    text = page(PAGES["ppo"])
    (wide, view), (least,) = (
        re.findall(r'<svg class="graph" role="group"[^>]* width="(\d+)"[^>]* viewBox="0 0 (\d+) ', text)[0],
        re.findall(r"@media screen { .scroll > svg.graph { min-width: (\d+)px; } }", text),
    )
    assert wide == view and 8 < 12 * int(least) / int(wide) < 9  # pixels of its letters in the narrowest window
    assert re.search(r"\.scroll > svg\.graph {[^}]*max-width: 100%; height: auto;", text)


def test_many_boxes_beside_each_other_are_drawn_from_left_to_right() -> None:
    pytest.importorskip("pygraphviz")
    fan, chain = [(0, i, True) for i in range(1, 12)], [(i, i + 1, True) for i in range(11)]
    beside, below = lay_out([(220.0, 60.0)] * 12, fan), lay_out([(220.0, 60.0)] * 12, chain)
    assert beside is not None and beside.width < 700 < beside.height
    assert below is not None and below.width < 300


LINES = [
    "def é(x):  # why",
    '    """One',
    '    and two."""',
    "    return f\"{x if x else 'no'} {1}\" + '<b>' * 0x1F",
    "class = 'open",
    "x = 1",
]


def test_the_words_of_a_source_are_told_apart_up_to_what_is_no_python() -> None:
    found = words([f"{line}\n" for line in LINES])
    told = {n: [(LINES[n - 1][a:b], kind) for a, b, kind in own] for n, own in found.items()}
    assert told == {
        1: [("def", "keyword"), ("# why", "comment")],
        2: [('"""One', "string")],
        3: [('    and two."""', "string")],
        4: [("return", "keyword"), (LINES[3][11:36], "string"), ("'<b>'", "string"), ("0x1F", "number")],
        5: [("class", "keyword")],
    }


@pytest.mark.parametrize("line", ["'\ud800' if x else 1", "x = '\0' or 2", "\\", "$", "f'{", '"\\}"', "\f\t#"])
def test_what_no_tokenizer_takes_stays_as_it_is(line: str, recwarn: pytest.WarningsRecorder) -> None:
    shown = coloured(line, words([line]).get(1, []))
    assert Page(shown).text == line and not recwarn


def test_the_source_has_colours_beside_its_marks() -> None:
    text = page(PAGES["ppo"])
    assert "<span class=keyword>" in text[text.index("<section id=source") : text.index("<section id=story")]
    span = Span("cause", "t.py", 1, 5, 1, 23, "é")
    told = replace(
        PPO,
        diagnoses=(replace(PPO.diagnoses[0], spans=(span,), fixes=()),),
        sources={"t.py": "é = 'ü' if x else None\n"},
    )
    marked = (
        "é = <mark><span class=string>&#x27;ü&#x27;</span> <span class=keyword>if</span> x "
        "<span class=keyword>else</span> <span class=keyword>None</span></mark>"
    )
    assert marked in page(replace(told, picture=Picture(boxes=(Box(0, "call", file="t.py", line=1),))))


@pytest.mark.slow
def test_a_large_page_stays_small() -> None:
    """Sixty boxes that each name many parameters, four hundred places in a long file."""
    names = tuple(f"model.layers.{i}.attention.projection.weight" for i in range(400))
    boxes = tuple(
        Box(i, "operations", "", "x" * 300, "long.py", 10 * i + 1, tuple((f"Op{n}", n) for n in range(300)), 900)
        if i % 2
        else Box(i, "parameters", "model.*", "many", nodes=400, parameters=names)
        for i in range(60)
    )
    spans = tuple(Span("related", "long.py", line, 1, line, 5, "here") for line in range(1, 4000, 3))
    moments = tuple(Moment("step", "long.py", 4000 - i, i, i) for i in range(200))
    told = replace(
        PPO,
        diagnoses=(replace(PPO.diagnoses[0], spans=spans),),
        sources={"long.py": "\n".join("value = function(argument)  " + "#" * 400 for _ in range(4000))},
        picture=Picture(boxes, tuple(Arrow(i, i + 1) for i in range(59)), moments=moments, nodes=20_000),
    )
    assert len(page(told)) < 1_000_000


@pytest.mark.parametrize(
    "points",
    [((0, 0.0), (1, 0.0)), ((0, -1.0), (9, 5.0)), ((0, 1e-300), (1, 1e300)), tuple((i, float(i)) for i in range(300))],
)
def test_a_curve_of_any_numbers_can_be_drawn(points: tuple[tuple[int, float], ...]) -> None:
    text = page(replace(PPO, picture=Picture(curves=(Curve("norm", points, 400),))))
    numbers: list[Any] = re.findall(r'polyline class=curve points="([^"]*)"', text)
    assert len(numbers) == 1 and "nan" not in numbers[0] and "inf" not in numbers[0]


def test_the_graph_alone_is_one_picture_that_loads_nothing_and_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygraphviz")
    told = PAGES["ppo"]
    evil = replace(told, diagnoses=(replace(told.diagnoses[0], title=EVIL), *told.diagnoses[1:]))
    for one, drawn in ((told, True), (evil, True), (replace(told, picture=Picture()), False)):
        root = ElementTree.fromstring(render(one, "svg"))
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert names <= {"svg", "title", "desc", "defs", "marker", "style", "g", "rect", "path", "text"}
        assert not [a for element in root.iter() for a in element.attrib if "href" in a or a.startswith("on")]
        text = " ".join(root.itertext())
        assert "GD103" in text and ("policy.*" in text) is drawn and ("trained by policy.optimizer" in text) is drawn
        assert "@import" not in text and "url(" not in text and "var(" not in text and "light-dark" not in text
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'torch-graphdoc[page]'" in " ".join(ElementTree.fromstring(render(told, "svg")).itertext())


def test_the_page_tells_who_shares_it_what_it_is_and_has_the_text_of_an_issue() -> None:
    text = page(PAGES["ppo"])
    first, graph, run = (text.index(part) for part in ("class=error", "<section id=graph", "<footer>"))
    assert first < text.index("help: ") < graph < run
    assert '<meta property=og:title content="graphdoc: GD103 ' in text
    assert f'<meta name=description content="{escape(lead(PPO.diagnoses[0]))}"' in text
    assert "<summary>Text for an issue</summary><pre tabindex=0>### error GD103: " in text
