"""How the result of an inner ``autograd.grad`` goes into the loss of a later call, by the source alone."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Event, Frame
from graphdoc.program.inner_gradient import Entered, entered

CALL, END = "grad(inner, w)", "loss.backward()"


def frame(program: str, text: str, function: str) -> Frame:
    """The place of this text."""
    before = program[: program.index(text)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return Frame("train.py", line, column, line, column + len(text), function, True)


def answer(program: str, function: str = "<module>") -> Entered:
    inner, at = frame(program, CALL, function), frame(program, END, function)
    return entered({"train.py": program}, Event(0, "grad", stack=[inner]), Event(1, "backward", stack=[at]), at)


@pytest.mark.parametrize(
    ("program", "how"),
    [
        (f"g = {CALL}\nloss = net(w - g)\n{END}\n", Entered.AS_TENSOR),
        (f"g = {CALL}\nloss = net(w) * g.norm().item()\n{END}\n", Entered.AS_NUMBER),
        (f"g = {CALL}\nprint(g.shape)\nloss = net(w)\n{END}\n", Entered.UNSEEN),
        (f"g = {CALL}\nkeep = g.abs() > 0.1\nloss = net(w * keep)\n{END}\n", Entered.AS_NUMBER),
        (f"g = {CALL}\nloss = 0\nfor one in g:\n    loss = loss + one\n{END}\n", Entered.AS_TENSOR),
    ],
)
def test_how_it_goes_in(program: str, how: Entered) -> None:
    assert answer(program) is how


def test_a_place_alone_tells_only_that_it_goes_in() -> None:
    program = f"g = {CALL}\nloss = net(w - g)\n{END}\n"
    at = frame(program, END, "<module>")
    inner = Event(0, "grad", stack=[frame(program, CALL, "<module>")])
    assert entered({"train.py": program}, inner, None, at) is Entered.SOMEHOW
    assert entered({}, inner, None, None) is Entered.UNSEEN
