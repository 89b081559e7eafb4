"""Expressions as if they stood in one piece."""

from __future__ import annotations

import ast

import pytest

from graphdoc.evidence import Frame
from graphdoc.program import bindings
from graphdoc.program.written_out import call_made, in_one_piece, place_of, written_out

_HELPERS = """\
def detach(of):
    return of.detach()


def call(of, *args, **more):
    return of.load(*args, **more)


"""


@pytest.mark.parametrize(
    ("before", "last", "written"),
    [
        ("", "detach(x) + y", "x.detach() + y"),
        ("", "call(self.target, net.state(), strict=True)", "self.target.load(net.state(), strict=True)"),
        ("n = self.net\nn.train()\n", "n.load(s)", "self.net.load(s)"),
        ("part = x * 2\n", "part + y", "x * 2 + y"),
        ("part = x * 2\nprint(part)\n", "part + y", "part + y"),  # more than a name for one use
        ("part = x * 2\npart = y\n", "part + y", "part + y"),
        ("kept = net.weight.clone()\nfor x in data:\n    pass\n", "kept - y", "net.weight.clone() - y"),
        ("", "detach(*x)", "detach(*x)"),
        ("", "call(to, net=of.state())", "to.load(net=of.state())"),  # another `of` than the function's own
    ],
)
def test_an_expression_is_written_in_one_piece(before: str, last: str, written: str) -> None:
    source = {"train.py": f"{_HELPERS}{before}found = {last}\n"}
    statement = bindings.tree(source, "train.py").body[-1]
    assert isinstance(statement, ast.Assign)
    at = bindings.frame_of(source, "train.py", statement)
    assert bindings.text_of(written_out(source, at, statement.value)) == written


def test_a_value_from_before_a_loop_keeps_its_name() -> None:
    source = {"train.py": "kept = net.weight.clone()\nfor x in data:\n    found = kept - x\n"}
    loop = bindings.tree(source, "train.py").body[-1]
    assert isinstance(loop, ast.For) and isinstance(loop.body[0], ast.Assign)
    at = bindings.frame_of(source, "train.py", loop.body[0])
    assert bindings.text_of(written_out(source, at, loop.body[0].value)) == "kept - x"


def test_the_place_of_a_call_that_is_passed_on_is_that_of_its_caller() -> None:
    source = {"train.py": f"{_HELPERS}loss = detach(x)\n"}
    stack = [Frame("train.py", 9, function="<module>", user=True), Frame("train.py", 2, function="detach", user=True)]
    made = call_made(source, stack)
    assert place_of(source, stack) == stack[0]
    assert made is not None and bindings.text_of(made[1]) == "x.detach()"


def test_a_file_is_written_out_by_scopes() -> None:
    text = (
        f"{_HELPERS}def fill(net, kept):\n    part = net.parameters()\n    for p in part:\n        one = p\n"
        "        call(kept, one)\n\n\npart = 1\nfound = [part for part in rest]\n"
    )
    made = ast.unparse(in_one_piece(ast.parse(text)))
    assert "for p in net.parameters():" in made
    assert "kept.load(p)" in made
    assert "[part for part in rest]" in made
