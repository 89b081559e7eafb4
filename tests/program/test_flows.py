"""Whether a value flows from one place of a program to another."""

from __future__ import annotations

import ast

import pytest

from graphdoc.evidence import Frame, Holder, Step
from graphdoc.program.bindings import Flow, flow, made_of
from graphdoc.program.carried_names import attributes_of_one_object, slices_in, uses_in_loss


def at(program: str, text: str) -> Frame:
    """The place of the last expression of this text."""
    before = program[: program.rindex(text)]
    column = len(before) - before.rfind("\n")
    line = before.count("\n") + 1
    return Frame("train.py", line, column, line, column + len(text))


def answer(program: str, source: str = "old()", sink: str = "take(loss)") -> Flow:
    return flow({"train.py": program}, at(program, source), at(program, sink))


@pytest.mark.parametrize(
    "program",
    [
        "value = old()\nloss = value + 1\ntake(loss)\n",
        "take(loss) if old() else take(loss)\n",
        "value, other = old(), new()\nloss = value\ntake(loss)\n",
        "value = old()\nif late:\n    value = new()\nloss = value\ntake(loss)\n",
        "if late:\n    loss = old()\nelse:\n    loss = new()\ntake(loss)\n",
        "loss = old()\nloss += new()\ntake(loss)\n",
        "loss = {}\nloss['a'] = old()\ntake(loss)\n",
        "for loss in old():\n    take(loss)\n",
        "def f():\n    loss = old()\n    take(loss)\n",
    ],
)
def test_what_enters_by_assignments(program: str) -> None:
    assert answer(program) is Flow.YES


@pytest.mark.parametrize(
    "program",
    [
        "value = old()\nloss = new()\ntake(loss)\n",
        "value, other = old(), new()\nloss = other\ntake(loss)\n",
        "loss = old()\nloss = new()\ntake(loss)\n",
        "loss = new()\nif late:\n    other = old()\ntake(loss)\n",
        "take(loss)\nloss = old()\n",
    ],
)
def test_what_does_not(program: str) -> None:
    assert answer(program) is Flow.NO


@pytest.mark.parametrize(
    "program",
    [
        "def f():\n    return old()\nloss = f()\ntake(loss)\n",
        "for x in data:\n    take(loss)\n    loss = old()\n",
        "class A:\n    def f(self):\n        self.a = old()\n        loss = self.b\n        take(loss)\n",
    ],
)
def test_what_is_not_known(program: str) -> None:
    assert answer(program) is Flow.UNKNOWN


def test_a_place_does_not_flow_into_itself() -> None:
    assert answer("for x in data:\n    loss = old()\n", sink="old()") is Flow.UNKNOWN


def test_what_has_no_source_is_not_known() -> None:
    assert flow({}, Frame("train.py", 1), Frame("train.py", 2)) is Flow.UNKNOWN
    assert flow({"train.py": "a = ("}, Frame("train.py", 1), Frame("train.py", 1)) is Flow.UNKNOWN


def behind(program: str, most: int) -> tuple[list[str], bool]:
    scope = ast.parse(program)
    statement = scope.body[-1]
    assert isinstance(statement, ast.Expr)
    found = made_of(scope, statement.value, most=most)
    return [ast.unparse(e) for e in found.expressions], found.whole


STEPS = "a = f()\nb = a + 1\nif late:\n    b = g()\ntake(b)\n"


def test_what_an_expression_is_made_of() -> None:
    assert behind(STEPS, 9) == (["take(b)", "g()", "a + 1", "f()"], True)


def test_what_is_further_than_asked_is_unknown() -> None:
    assert behind(STEPS, 1) == (["take(b)", "g()", "a + 1"], False)


def test_an_attribute_that_nobody_here_has_set_is_unknown() -> None:
    assert behind("take(self.memory)\n", 9) == (["take(self.memory)"], False)


def test_what_was_looked_for_is_followed_no_further() -> None:
    scope = ast.parse(STEPS)
    statement = scope.body[-1]
    assert isinstance(statement, ast.Expr)
    found = made_of(scope, statement.value, lambda e: isinstance(e, ast.BinOp))
    assert [ast.unparse(e) for e in found.found] == ["a + 1"]
    assert "f()" not in [ast.unparse(e) for e in found.expressions]


def test_what_one_loss_takes_in_twice() -> None:
    program = "guess = model(codes)\nloss = guess - codes\nloss.backward()\n"
    call = at(program, "loss.backward()")
    found = uses_in_loss({"train.py": program}, call, ["codes"])
    assert sorted((frame.line, name) for frame, name in found) == [(1, "codes"), (2, "codes")]


def test_parts_of_a_tensor_are_read() -> None:
    program = "take(self.codes[:, 1:] - other)\n"
    place = at(program, "self.codes[:, 1:] - other")
    assert slices_in({"train.py": program}, place, ["self.codes", "self", "other"]) == ["self.codes"]


def test_an_attribute_is_one_in_the_methods_of_a_class() -> None:
    program = (
        "class A:\n    def f(self):\n        take(self.codes)\n    def g(self):\n        self.codes\n"
        "class B:\n    def f(self):\n        give(self.codes)\n"
    )
    steps = [Step("name", "self"), Step("attribute", "codes")]
    held = [Holder("self.codes", "A.g", "train.py", steps), Holder("codes", "A.g", "train.py", [Step("name", "codes")])]
    sources = {"train.py": program}
    assert attributes_of_one_object(sources, at(program, "take(self.codes)"), held) == ["self.codes"]
    assert attributes_of_one_object(sources, at(program, "give(self.codes)"), held) == []
