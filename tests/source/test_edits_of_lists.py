"""The primitives on libcst's tree: members of what a node lists, decorators, headers, parts of statements."""

from __future__ import annotations

import ast

import pytest

from graphdoc.source.concrete import rewritten
from graphdoc.source.edits import (
    add_members,
    below,
    copied,
    decorate,
    delete,
    drop_decorator,
    drop_item,
    insert_after,
    instead,
    write,
    written,
)
from graphdoc.source.module import Source


def listed(code: str) -> tuple[Source, ast.stmt]:
    source = Source("train.py", code)
    assert source.tree is not None
    return source, source.tree.body[-1]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a, b\n", "x = a, b, None, None\n"),
        ("x = (a,)  # one\n", "x = (a, None, None,)  # one\n"),
        ("x = [\n    a,  # one\n    b\n]\n", "x = [\n    a,  # one\n    b,\n    None,\n    None\n]\n"),
        ("x = f()\n", "x = f(None, None)\n"),
    ],
)
def test_members_come_behind_the_others(code: str, expected: str) -> None:
    source, node = listed(code)
    assert isinstance(node, ast.Assign)
    assert rewritten(source, add_members(source, node.value, ["None", "None"])) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(): pass\n", "def f(k): pass\n"),
        ("def f(self, x: int, *a) -> int:\n    pass\n", "def f(self, x: int, k, *a) -> int:\n    pass\n"),
        ("def f(\n    self,\n    x,\n):\n    pass\n", "def f(\n    self,\n    x,\n    k,\n):\n    pass\n"),
    ],
)
def test_a_parameter_comes_behind_the_others(code: str, expected: str) -> None:
    source, node = listed(code)
    assert rewritten(source, add_members(source, node, ["k"])) == expected


@pytest.mark.parametrize(
    ("code", "index", "expected"),
    [
        ("with a(), b() as c: pass\n", 0, "with b() as c: pass\n"),
        ("with a() as d, b():  # two\n    pass\n", 1, "with a() as d:  # two\n    pass\n"),
        ("with (\n    a(),\n    b(),\n):\n    pass\n", 1, "with (\n    a(),\n):\n    pass\n"),
    ],
)
def test_an_item_of_a_with_goes(code: str, index: int, expected: str) -> None:
    source, node = listed(code)
    assert isinstance(node, ast.With)
    assert rewritten(source, drop_item(source, node, node.items[index])) == expected


def test_decorators_come_and_go() -> None:
    source, node = listed("# f\n@a  # first\n# why\n@b()\n# g\ndef f():\n    pass\n")
    assert isinstance(node, ast.FunctionDef)
    added = decorate(source, node, "torch.no_grad()")
    assert rewritten(source, added) == "# f\n@a  # first\n# why\n@b()\n# g\n@torch.no_grad()\ndef f():\n    pass\n"
    first, second = (drop_decorator(source, node, d) for d in node.decorator_list)
    assert rewritten(source, first) == "# f\n# why\n@b()\n# g\ndef f():\n    pass\n"
    assert rewritten(source, second) == "# f\n@a  # first\n# why\n# g\ndef f():\n    pass\n"
    assert rewritten(source, [*first, *second]) == "# f\n# why\n# g\ndef f():\n    pass\n"


def test_statements_stand_below_a_header() -> None:
    source, node = listed("for a, b in zip(x,  y):\n  f(a)\n  # then\n  g(b)  # last\n")
    assert isinstance(node, ast.For)
    header = written(source, "for {t} in {i}:", t=node.target, i=node.iter)
    edits = insert_after(source, node, [below(header, [copied(source, node.body[1]), "", "h()"])])
    edits += delete(source, node.body[1])
    expected = "for a, b in zip(x,  y):\n  f(a)\nfor a, b in zip(x,  y):\n  # then\n  g(b)  # last\n\n  h()\n"
    assert rewritten(source, edits) == expected


def test_parts_of_a_statement_get_parentheses_where_they_need_them() -> None:
    source, node = listed("f(a if b else c, (d + e))\n")
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    first, second = node.value.args
    made = written(source, "x = {first} + {second}", first=first, second=second)
    assert rewritten(source, instead(source, node, [made])) == "x = (a if b else c) + (d + e)\n"
    made = written(source, "x = {first}", first=first)
    assert rewritten(source, instead(source, node, [made])) == "x = a if b else c\n"


def test_what_stands_around_a_statement_that_goes_stays() -> None:
    source, node = listed("a()\n\n# b\nb()  # gone\n\nif c:\n    # d\n    d(); e()\n    f()  # last\n")
    assert isinstance(node, ast.If)
    edits = [e for s in node.body for e in delete(source, s)]
    assert rewritten(source, edits) == "a()\n\n# b\nb()  # gone\n\nif c:\n    # d\n    pass  # last\n"
    assert source.tree is not None
    assert rewritten(source, delete(source, source.tree.body[1])) == source.code.replace("b()  # gone\n", "")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("not (a)", "not a * b"),
        ("(a).x", "(a * b).x"),
        ("f(a)[0]", "f(a * b)[0]"),
        ("[a, c] if a2 else c", "[a * b, c] if a2 else c"),
        ("(a)()", "(a * b)()"),
        ("(a)[0]", "(a * b)[0]"),
        ("(a) ** 2", "(a * b) ** 2"),
        ("c if (a) else d", "c if a * b else d"),
        ("c and (a)", "c and a * b"),
        ("c < a", "c < a * b"),
        ("c / a", "c / (a * b)"),
        ("a / c", "a * b / c"),
        ("-a", "-(a * b)"),
    ],
)
def test_a_template_gets_parentheses_for_what_is_around_it(code: str, expected: str) -> None:
    source, node = listed(f"{code}\n")
    name = next(n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == "a")
    assert rewritten(source, [write(source, name, "{it} * b", it=name)]) == f"{expected}\n"


@pytest.mark.parametrize("body", ["\n    x()", " x()", "\n    if y:\n        z()\n    else:\n        x()"])
def test_the_comment_on_the_last_line_of_a_block_stays_behind_what_takes_its_place(body: str) -> None:
    source, node = listed(f"for a in b:{body}  # kept\n")
    assert rewritten(source, instead(source, node, ["c()"])) == "c()  # kept\n"


def test_an_index_that_is_a_slice_is_a_part() -> None:
    source, node = listed("x[i, 1:n, :]\n")
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Subscript)
    assert isinstance(node.value.slice, ast.Tuple)
    one, *rest = node.value.slice.elts
    template = written(source, "{x}[{i}][{a}, {b}]", x=node.value.value, i=one, a=rest[0], b=rest[1])
    assert rewritten(source, instead(source, node, [template])) == "x[i][1:n, :]\n"


def test_form_feeds_stay() -> None:
    source, node = listed("def f(x):\n\f    with g():\n \f        y = a\n    return y\n")
    name = next(n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == "a")
    assert rewritten(source, [write(source, name, "b")]) == source.code.replace("= a", "= b")
    source, node = listed('x = """s\n\f""" + a\n')
    name = next(n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == "a")
    assert rewritten(source, [write(source, name, "b")]) == 'x = """s\n\f""" + b\n'
