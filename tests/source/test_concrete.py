"""Edits made on libcst's tree: what they name changes, and everything else stays to the letter."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.source import edits
from graphdoc.source.concrete import OverlappingEdits, Unreadable, rewritten
from graphdoc.source.layout import Unplaceable
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

UGLY = sorted((Path(__file__).parents[1] / "ugly").glob("*.py"))
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
Make = Callable[[Source, list[ast.stmt]], list[Edit]]


def made(text: str, make: Make) -> str:
    """The text after the edits that ``make`` asks for, given the source and its statements in order."""
    source = Source("train.py", text)
    return rewritten(source, make(source, list(source.node_statements())))


def value(statement: ast.stmt) -> Any:
    """What a statement computes."""
    return statement.value  # type: ignore[attr-defined]


def augmented(statement: ast.stmt) -> ast.AugAssign:
    assert isinstance(statement, ast.AugAssign)
    return statement


def detached(source: Source, node: ast.expr) -> Edit:
    return edits.write(source, node, "{it}.detach()", it=node)


LOOP = """\
for x in data:
    # forward
    y = f(x)  # the loss
    y.backward()
    step()
"""
WITH_COMMENTS = """\
for x in data:
    # forward
    y = f(x)
    y.backward()

    # update,
    # then go on
    step()  # here

    # log
    log(y)
"""
SECTION = """\
# the net
net = make()
# ---- optimizer ----
opt = Adam(net)
net.cuda()
"""
ROW = "if a: b(); c()\n"


def moved(which: int, before: int) -> Make:
    return lambda s, n: [
        *edits.delete(s, n[which]),
        *edits.insert_before(s, n[before], [edits.copied(s, n[which])]),
    ]


CASES: list[tuple[str, Make, str]] = [
    ("y = a + b  # why\n", lambda s, n: [detached(s, value(n[0]))], "y = (a + b).detach()  # why\n"),
    ("y = (a +\n     b)\n", lambda s, n: [detached(s, value(n[0]))], "y = (a +\n     b).detach()\n"),
    (
        "y = f(a, g(b))\n",
        lambda s, n: [detached(s, value(n[0])), detached(s, value(n[0]).args[1])],
        "y = f(a, g(b).detach()).detach()\n",
    ),
    (
        "y = a - b\n",
        lambda s, n: [edits.write(s, value(n[0]).right, "c + d")],
        "y = a - (c + d)\n",
    ),
    (
        "y = where(c, a, b)\n",
        lambda s, n: [edits.write(s, value(n[0]), "f(~{c}, {a})", c="p < q", a="a")],
        "y = f(~(p < q), a)\n",
    ),
    ("x.relu_()\n", lambda s, n: [*edits.bound(s, n[0], "x")], "x = x.relu_()\n"),
    ("x -= y - z\n", lambda s, n: edits.written_out(s, augmented(n[0])), "x = x - (y - z)\n"),
    (LOOP, lambda s, n: edits.delete(s, n[1]), LOOP.replace("    y = f(x)  # the loss\n", "")),
    (LOOP, lambda s, n: edits.insert_before(s, n[1], ["z = 0"]), LOOP.replace("    y =", "    z = 0\n    y =")),
    (LOOP, lambda s, n: edits.insert_after(s, n[3], ["if a:\n    b"]), LOOP + "    if a:\n        b\n"),
    (
        LOOP,
        lambda s, n: [*edits.delete(s, n[3]), *edits.insert_after(s, n[0], [edits.copied(s, n[3])])],
        LOOP.replace("    step()", "step()"),
    ),
    # A comment goes along with all of what it is about, and each stays above its own.
    (
        WITH_COMMENTS,
        moved(3, 1),
        """\
for x in data:
    # update,
    # then go on
    step()  # here
    # forward
    y = f(x)
    y.backward()

    # log
    log(y)
""",
    ),
    (
        WITH_COMMENTS,
        moved(3, 0),
        """\
# update,
# then go on
step()  # here
for x in data:
    # forward
    y = f(x)
    y.backward()

    # log
    log(y)
""",
    ),
    # What follows without a blank line is what the comment is about, too; a rule is about all that comes after it.
    (
        WITH_COMMENTS,
        moved(1, 4),
        WITH_COMMENTS.replace("    y = f(x)\n", "").replace("    log", "    y = f(x)\n    log"),
    ),
    (SECTION, moved(0, 2), "# ---- optimizer ----\nopt = Adam(net)\n# the net\nnet = make()\nnet.cuda()\n"),
    (SECTION, moved(1, 0), "# the net\nopt = Adam(net)\nnet = make()\n# ---- optimizer ----\nnet.cuda()\n"),
    (
        LOOP,
        lambda s, n: edits.wrap(s, n[1:3], "with g():"),
        LOOP.replace("    y = f(x)", "    with g():\n        y = f(x)").replace("    y.b", "        y.b"),
    ),
    (
        LOOP,
        lambda s, n: edits.unwrap(s, n[0]),
        "# forward\ny = f(x)  # the loss\ny.backward()\nstep()\n",
    ),
    (ROW, lambda s, n: edits.insert_after(s, n[1], ["d()"]), "if a: b(); d(); c()\n"),
    (ROW, lambda s, n: edits.delete(s, n[2]), "if a: b()\n"),
    (ROW, lambda s, n: edits.wrap(s, [n[2]], "with g():"), "if a:\n    b()\n    with g():\n        c()\n"),
    ("if a: b()\n", lambda s, n: edits.delete(s, n[1]), "if a: pass\n"),
    ("a()\n", lambda s, n: edits.delete(s, n[0]), "pass\n"),
    (
        "f(a,\n  b=1,  # one\n  c=2)\n",
        lambda s, n: edits.set_keyword(s, value(n[0]), "b", "3"),
        "f(a,\n  b=3,  # one\n  c=2)\n",
    ),
    (
        "f(\n    a,\n    b=1,  # one\n)\n",
        lambda s, n: edits.drop_arguments(s, value(n[0]), lambda i, _: i == 1),
        "f(\n    a,\n)\n",
    ),
    ("f(x for x in y)\n", lambda s, n: edits.add_argument(s, value(n[0]), "k=1"), "f((x for x in y), k=1)\n"),
    (
        "if a:\r\n\tb()\r\n",
        lambda s, n: edits.insert_after(s, n[1], ["with c:\n    d()"]),
        "if a:\r\n\tb()\r\n\twith c:\r\n\t\td()\r\n",
    ),
    ("a()", lambda s, n: edits.insert_after(s, n[0], ["b()"]), "a()\nb()"),
    (
        "if a:\n    b()\n    \fc()\n\fd()\n",
        lambda s, n: edits.insert_after(s, n[1], ["e()"]),
        "if a:\n    b()\n    e()\n    \fc()\n\fd()\n",
    ),
    ("\ufeff# coding\nx = f(y)\n", lambda s, n: [detached(s, value(n[0]))], "\ufeff# coding\nx = f(y).detach()\n"),
]


@pytest.mark.parametrize(("text", "make", "wanted"), CASES, ids=[str(i) for i in range(len(CASES))])
def test_what_is_named_changes_and_nothing_else(text: str, make: Make, wanted: str) -> None:
    assert made(text, make) == wanted


@pytest.mark.parametrize("path", UGLY, ids=lambda p: p.name)
def test_a_line_put_into_an_ugly_source_is_its_only_change(path: Path) -> None:
    encoding = "latin-1" if path.name == "latin1.py" else "utf-8"
    text = path.read_bytes().decode(encoding)
    source = Source("ugly.py", text)
    lines = _LINE.findall(text.removeprefix("\ufeff"))
    for statement in list(source.node_statements()):
        try:
            new = rewritten(source, edits.insert_before(source, statement, ["zzz()"])).removeprefix("\ufeff")
        except Unplaceable:
            continue
        rest = [line for line in _LINE.findall(new) if line.strip() != "zzz()"]
        assert rest == lines or new.replace("zzz(); ", "", 1) == "".join(lines)


def test_two_changes_of_one_node_are_refused() -> None:
    with pytest.raises(OverlappingEdits):
        made("y = f(x)\n", lambda s, n: [edits.write(s, value(n[0]), "a"), edits.write(s, value(n[0]), "b")])
    with pytest.raises(OverlappingEdits):
        made("y = f(x)\n", lambda s, n: [edits.write(s, value(n[0]), "a"), detached(s, value(n[0]).args[0])])
    with pytest.raises(OverlappingEdits):
        made("y = f(x)\nz = y\n", lambda s, n: [*edits.delete(s, n[0]), detached(s, value(n[0]))])


def test_an_edit_that_several_ask_for_is_made_once() -> None:
    def make(s: Source, n: list[ast.stmt]) -> list[Edit]:
        return [*edits.insert_after(s, n[0], ["import b"], once=True)] * 2

    assert made("import a\na.f()\n", make) == "import a\nimport b\na.f()\n"


def test_what_libcst_cannot_read_is_refused_with_its_line() -> None:
    source = Source("train.py", "x = f(y)\n")
    wanted = detached(source, value(next(source.node_statements())))
    source.code = "x = f(y))\n"  # as if a newer syntax stood there
    with pytest.raises(Unreadable, match="line 1"):
        rewritten(source, [wanted])


def test_what_libcst_writes_otherwise_is_put_back() -> None:
    old = "def f(x):\n        if x:\n                a()\n       \telse:\n                b(x)\n"

    def make(s: Source, n: list[ast.stmt]) -> list[Edit]:
        return [detached(s, value(n[3]).args[0])]

    assert made(old, make) == old.replace("b(x)", "b(x.detach())")


def test_a_sum_of_a_thousand_terms_can_be_changed() -> None:
    text = "y = " + " + ".join(["x"] * 1000) + "\n"
    assert made(text, lambda s, n: [detached(s, value(n[0]))]) == f"y = ({text[4:-1]}).detach()\n"
