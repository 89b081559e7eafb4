"""Where the input of a derivative was made: followed through the calls that were seen, and no further."""

from __future__ import annotations

import pytest
from questions import asked

from graphdoc.evidence import Evidence, Frame, Raised
from graphdoc.program.gathered_parameters import made_input

SOURCE = """\
def slope(t, x):
    y = energy(x)
    return grad(y, x)


start = torch.randn(3)
solve(slope, start)
slope(0, start)
"""
SOURCES = {"train.py": SOURCE}


def _at(text: str, function: str = "<module>") -> Frame:
    lines = SOURCE.splitlines()
    line = next(i for i, content in enumerate(lines, 1) if text in content)
    column = lines[line - 1].index(text) + 1
    return Frame("train.py", line, column, line, column + len(text), function, True)


def _library(function: str) -> Frame:
    return Frame("/site-packages/package/calls.py", 5, 1, 5, 9, function, False)


def _made(*stack: Frame) -> tuple[str, int, bool] | None:
    found = made_input(Evidence(sources=SOURCES, raised=Raised("RuntimeError", "", list(stack))), "x")
    return (found.name, found.frame.line, found.given) if found is not None else None


INNER = _at("grad(y, x)", "slope")


def test_a_direct_call_leads_to_the_caller() -> None:
    assert _made(_at("slope(0, start)"), INNER) == ("start", 6, False)


def test_the_call_of_a_module_is_seen_through() -> None:
    between = [_library(f"Module.{n}") for n in ("_wrapped_call_impl", "_call_impl")]
    assert _made(_at("slope(0, start)"), *between, INNER) == ("start", 6, False)


def test_what_a_package_gives_is_its_own() -> None:
    assert _made(_at("solve(slope, start)"), _library("Solver.step"), INNER) == ("x", 1, True)


@pytest.mark.parametrize("own", ["", "    w = torch.ones(2)\n"], ids=["read", "another of its own"])
def test_a_parameter_that_a_function_reads_from_its_module(tmp_path, own):
    text = f"w = torch.zeros(3, requires_grad=True)\n\n\ndef clear():\n{own}    w.grad.zero_()\n\n\nclear()\n"
    assert asked(tmp_path, text).parameters_within == ({} if own else {"w": "w"})
