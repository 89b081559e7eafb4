"""The drawing of places in source, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_reports import strip_ansi

from graphdoc.model import Diagnosis, Fix, Report, Role, Run, Span
from graphdoc.render import FORMATS, render
from graphdoc.render.snippet import snippet
from graphdoc.render.text import cells, neutralise
from graphdoc.render.underlines import SourceLine, plain


def draw(source: str, *spans: Span, width: int = 80) -> str:
    """The drawing without its two head rows, dots for the blanks at its left edge so that they can be seen here."""
    rows = snippet(spans, spans[0], {"f.py": source}, width, 1)
    return "\n".join(plain(row) for row in rows[2:])


def on(line: int, column: int, end: int, label: str, role: Role = "failed", end_line: int = 0) -> Span:
    return Span(role, "f.py", line, column, end_line or line, end, label)


DRAWINGS = {
    "one place": (
        "loss.backward()\n",
        [on(1, 1, 16, "needs it again", "cause")],
        """\
1 | loss.backward()
  | ^^^^^^^^^^^^^^^ needs it again""",
    ),
    "two beside each other": (
        "a = f(x) + g(y)",
        [on(1, 5, 9, "first"), on(1, 12, 16, "second", "cause")],
        """\
1 | a = f(x) + g(y)
  |     ----   ^^^^ second
  |     |
  |     first""",
    ),
    "three beside each other": (
        "a = f(x) + g(y) + h(z)",
        [on(1, 5, 9, "first"), on(1, 12, 16, "second", "cause"), on(1, 19, 23, "third")],
        """\
1 | a = f(x) + g(y) + h(z)
  |     ----   ^^^^   ---- third
  |     |      |
  |     |      second
  |     first""",
    ),
    "one within the other": (
        "a = f(q - v).mean()",
        [on(1, 5, 20, "outer"), on(1, 7, 12, "inner", "cause")],
        """\
1 | a = f(q - v).mean()
  |     --^^^^^--------
  |     | |
  |     | inner
  |     outer""",
    ),
    "the same place twice": (
        "y += b",
        [on(1, 1, 7, "writes", "mutated"), on(1, 1, 7, "the line to change", "cause")],
        """\
1 | y += b
  | ^^^^^^
  | |
  | writes
  | the line to change""",
    ),
    "exactly the same is said once": (
        "y += b",
        [on(1, 1, 7, "writes"), on(1, 1, 7, "writes")],
        """\
1 | y += b
  | ------ writes""",
    ),
    "one line between two places is shown, more are not": (
        "a\nb\nc\nd\ne\nf",
        [on(1, 1, 2, "x"), on(3, 1, 2, "y"), on(6, 1, 2, "z")],
        """\
1 | a
  | - x
2 | b
3 | c
  | - y
...
6 | f
  | - z""",
    ),
    "several lines from the first character": (
        "  loss = f(\n    x,\n  )\n",
        [on(1, 3, 4, "all of it", "cause", 3)],
        """\
1 | /   loss = f(
2 | |     x,
3 | |   )
  | |___^ all of it""",
    ),
    "several lines from the middle of one": (
        "loss = f(\n    x,\n)\n",
        [on(1, 8, 2, "all of it", "cause", 3), on(2, 5, 6, "this")],
        """\
1 |   loss = f(
  |  ________^
2 | |     x,
  | |     - this
3 | | )
  | |_^ all of it""",
    ),
    "long spans lose their middle": (
        "f(\n" + "  x,\n" * 20 + ")\n",
        [on(1, 1, 2, "all of it", "cause", 22)],
        """\
1 | / f(
2 | |   x,
... |
22 | | )
  | |_^ all of it""",
    ),
    "two spans over several lines within each other": (
        "f(\n  g(\n    x\n  )\n)\n",
        [on(1, 1, 2, "outer", "created", 5), on(2, 3, 4, "inner", "cause", 4)],
        """\
1 | /   f(
2 | | /   g(
3 | | |     x
4 | | |   )
  | | |___^ inner
5 | |   )
  | |___- outer""",
    ),
    "an empty span at column 1 is the whole line": (
        "    loss = f(x)  \n",
        [on(1, 1, 1, "", "cause")],
        """\
1 |     loss = f(x)
  |     ^^^^^^^^^^^ the line to change""",
    ),
    "tabs are four cells wide at most": (
        "\tif a:\tb = c\n",
        [on(1, 8, 13, "here")],
        """\
1 |     if a:   b = c
  |             ----- here""",
    ),
    "wide and combining characters": (
        "模型 = 'e\u0301👩\u200d👧' + 输入",
        [on(1, 6, 13, "string"), on(1, 16, 18, "input", "cause")],
        """\
1 | 模型 = 'e\u0301👩\u200d👧' + 输入
  |        -----   ^^^^ input
  |        |
  |        string""",
    ),
    "control characters are spelled out": (
        "a = '\x1b[31m' + b",
        [on(1, 15, 16, "b\x1b[0m\n::error::x")],
        """\
1 | a = '\\x1b[31m' + b
  |                  - b\\x1b[0m ::error::x""",
    ),
    "a label that finds no room at the right moves left": (
        "x = 1; " * 9 + "y.backward()",
        [on(1, 64, 76, "this backward needs what the one before has freed")],
        """\
1 | x = 1; x = 1; x = 1; x = 1; x = 1; x = 1; x = 1; x = 1; x = 1; y.backward()
  |                                                                ------------
  |                                             this backward needs what the one
  |                                             before has freed""",
    ),
    "beyond the end of the file": (
        "a = 1",
        [on(7, 1, 5, "gone", "cause"), on(1, 9, 12, "past the line")],
        """\
1 | a = 1
  |     - past the line
7 | ^ gone""",
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing(name: str) -> None:
    source, spans, expected = DRAWINGS[name]
    assert draw(source, *spans) == expected


LONG = "result = " + " + ".join(f"term_{i}" for i in range(40))


@pytest.mark.parametrize("needle", ["result", "term_7", "term_20", "term_39"])
@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_long_line_is_clipped_around_its_place(needle: str, width: int) -> None:
    column = LONG.index(needle) + 1
    rows = draw(LONG, on(1, column, column + len(needle), "x"), width=width).split("\n")
    assert all(len(row) <= width for row in rows)
    start = rows[1].index("-")
    assert rows[0][start : start + len(needle)] == needle
    assert rows[1][start : start + len(needle)] == "-" * len(needle)
    stays = column - 1 + len(needle) <= width - len("1 | ") - len("...")
    assert rows[0].startswith("1 | result" if stays else "1 | ...")


def test_a_place_wider_than_the_screen_is_underlined_to_the_edge() -> None:
    rows = draw(LONG, on(1, 10, len(LONG) + 1, "x")).split("\n")
    assert rows[0].endswith("...") and len(rows[0]) == 80
    assert rows[1].endswith("---") and len(rows[1]) == 80


def test_a_line_cut_behind_a_joiner_is_no_wider() -> None:
    assert cells(SourceLine("\x1b\u200d\u200daa", 10, [(1, 3)]).text) <= 10


@given(st.text(alphabet="ab \t\x1b模é\u0301👩\u200d🇩\x85", max_size=60), st.integers(10, 60), st.data())
def test_a_character_is_where_its_cell_says(line: str, width: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    shown = SourceLine(line, width, [(start, end)])
    assert cells(shown.text) <= width
    assert 0 <= shown.cell(start) <= shown.cell(end) <= width
    joined = line[:start].endswith("\u200d")  # the width of half a joined emoji is anyone's guess
    if "\t" not in line and not joined and cells(neutralise(line)) <= width:
        assert shown.cell(start) == cells(neutralise(line[:start]))


words = st.text(max_size=40)
spans = st.builds(
    Span,
    st.sampled_from(["cause", "created", "consumed", "freed", "mutated", "failed", "related"]),
    st.sampled_from(["f.py", "g.py", "\x1b.py"]),
    st.integers(-1, 9),
    st.integers(-1, 40),
    st.integers(-1, 12),
    st.integers(-1, 40),
    words,
)
fixes = st.builds(Fix, words, words, st.sampled_from(["safe", "unsafe", "display"]), words, words, st.none())
diagnoses = st.builds(
    Diagnosis,
    st.just("GD101"),
    st.just("carried-state"),
    st.sampled_from(["certain", "likely", "possible"]),
    words,
    words,
    st.lists(spans, max_size=5).map(tuple),
    st.lists(words, max_size=2).map(tuple),
    st.lists(fixes, max_size=2).map(tuple),
)


@settings(max_examples=60)
@given(st.lists(diagnoses, max_size=2), st.lists(st.text(max_size=60), max_size=8), st.lists(words, max_size=2))
def test_no_report_breaks_a_renderer_or_gets_an_order_through(
    found: list[Diagnosis], lines: list[str], notes: list[str]
) -> None:
    report = Report(Run(), "autograd-failure", None, tuple(found), tuple(notes), {"f.py": "\n".join(lines)})
    for fmt in FORMATS:
        render(report, fmt, width=80).encode()
    text = strip_ansi(render(report, "terminal", width=80, color=True))
    assert neutralise(text.replace("\n", "")) == text.replace("\n", "")
    assert not [line for line in text.split("\n") if line.lstrip().startswith("::")]
