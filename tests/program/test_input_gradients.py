"""What a backward computes for each input of its forward, read in its source."""

from __future__ import annotations

import ast
import textwrap

import pytest

from graphdoc.program.custom_functions import input_gradients

HEAD = "def backward(ctx, grad):\n    w, x = ctx.saved_tensors\n    s = grad * x\n"
ONE = {"inputs": ("w",), "needs": (True,)}
CASES = [
    ("grad_x = s\ngrad_w = s * w", {}, ("grad_w", "grad_x"), ()),
    ("dX = s * 2\ndW = s * w", {}, ("dW", "dX"), ()),
    ("w_grad = s * w", {"needs": (True, False)}, ("w_grad", "None"), ()),
    ("w_grad = s * w", {}, None, ()),  # x needs one as well
    ("a = s.sum(0)\nb = s.sum(1)", {}, ("a", "b"), ("w", "x")),
    ("a = s.sum(0)\nb = a.sum(0)", ONE, ("b",), ()),  # what is read again is no result
    ("a = s.sum(0)\nb = s.sum(1)", {"numbers": frozenset({1}), "needs": (True, False)}, None, ()),
    ("a = s.sum(0)\nreturn a", {"numbers": frozenset({0}), "needs": (False, True)}, ("None", "a"), ()),
    ("return None, s.sum(0), s.sum(1)", {}, ("s.sum(0)", "s.sum(1)"), ("w", "x")),
    ("grad_w = s\nreturn grad_w, None", {"needs": (True, False)}, ("grad_w", "None"), ()),
    ("if ctx.needs_input_grad[0]:\n    grad_w = s * w\ngrad_x = s", {}, None, ()),  # may be unbound at the end
    ("if grad.any():\n    grad_w = s\nelse:\n    grad_w = w\ngrad_x = s", {}, ("grad_w", "grad_x"), ()),
    ("with torch.no_grad():\n    grad_w = s\n    grad_x = s", {}, ("grad_w", "grad_x"), ()),
    ("if grad.any():\n    grad_x = s\n    return grad_x\ngrad_w = s", {}, None, ()),  # bound only later
]


@pytest.mark.parametrize(("body", "given", "values", "by_order"), CASES)
def test_values_for_each_input(body, given, values, by_order):
    backward = ast.parse(HEAD + textwrap.indent(body, "    ") + "\n").body[0]
    assert isinstance(backward, ast.FunctionDef)
    returned = next((n for n in ast.walk(backward) if isinstance(n, ast.Return)), None)
    asked = {"inputs": ("w", "x"), "needs": (True, True), "numbers": frozenset(), **given}
    found = input_gradients(backward, returned, **asked)
    assert (found and (found.values, found.by_order)) == (values and (values, by_order))
