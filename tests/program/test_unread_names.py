"""The name that a result is bound to and that nothing reads."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.name_usage import unread_name, unread_result

BODIES = {
    "bound and left": ("y = f(x)  #\nreturn x", True),
    "bound again": ("y = f(x)  #\ny = g(x)\nreturn y", True),
    "bound again from itself": ("y = f(x)  #\ny = g(y)\nreturn y", False),
    "bound again on one way": ("y = f(x)  #\nif x:\n    y = g(x)\nreturn y", False),
    "bound on one way": ("y = x\nif x:\n    y = f(x)  #\nreturn y", False),
    "the variable of a loop": ("for i, y in enumerate(x):\n    y = f(y)  #\nreturn x", True),
    "the variable of a loop, read behind it": ("for y in x:\n    y = f(y)  #\nreturn y", False),
    "the variable of a loop, read in it": ("for y in x:\n    y = f(y)  #\n    x.append(y)\nreturn x", False),
    "a state": ("y = x\nfor i in x:\n    y = f(y)  #\nreturn x", False),
    "read in the next round": ("y = x\nwhile x:\n    g(y)\n    y = f(x)  #\nreturn x", False),
    "read by an inner function": ("def inner():\n    return y\ny = f(x)  #\nreturn inner", False),
    "read by a handler": ("try:\n    y = f(x)  #\n    g(x)\nfinally:\n    print(y)", False),
    "read by name": ("y = f(x)  #\nreturn locals()", False),
    "said to be nobody's": ("_y = f(x)  #\nreturn x", False),
    "one of two": ("y, z = f(x)  #\nreturn z", False),
    "of a loop around": ("for z in x:\n    for y in z:\n        y = f(y)  #\n    g(z)\nreturn x", True),
    "deleted": ("y = f(x)  #\ndel y\nreturn x", False),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_name_that_nothing_reads_is_known(case: str) -> None:
    body, unread = BODIES[case]
    text = "def forward(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    at = next(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("#"))
    column = text.splitlines()[at - 1].index("f(") + 1
    frame = Frame("train.py", at, column, at, column + 4, "forward")
    assert bool(unread_name({"train.py": text}, frame)) is unread


def test_a_name_of_a_module_that_its_function_reads_is_read() -> None:
    text = "y = f(1)\ndef g():\n    return y\n"
    assert not unread_name({"train.py": text}, Frame("train.py", 1, 5, 1, 9, "<module>"))


RESULTS = {
    "left": ("out, aux = net(x)\nloss = f(out)\nloss.backward()", "aux"),
    "said to be nobody's": ("out, _aux = net(x)\nloss = f(out)\nloss.backward()", ""),
    "read": ("out, aux = net(x)\nloss = f(out)\nloss.backward()\nprint(aux)", ""),
    "of the module": ("global aux\nout, aux = net(x)\nloss = f(out)\nloss.backward()", ""),
    "read by name": ("out, aux = net(x)\nloss = f(out)\nloss.backward()\nreturn locals()", ""),
    "deleted": ("out, aux = net(x)\ndel aux\nloss = f(out)\nloss.backward()", ""),
    "an attribute": ("out, self.aux = net(x)\nloss = f(out)\nloss.backward()", ""),
}


@pytest.mark.parametrize("case", RESULTS)
def test_one_of_several_results_that_nothing_reads_is_known(case: str) -> None:
    body, name = RESULTS[case]
    made = "def net(x):\n    second = g(x)\n    return f(x), second\ndef step(self, x):\n"
    lines = (made + "".join(f"    {line}\n" for line in body.splitlines())).splitlines()

    def at(code: str, function: str) -> Frame:
        line = next(n for n, text in enumerate(lines, 1) if code in text)
        column = lines[line - 1].index(code) + 1
        return Frame("train.py", line, column, line, column + len(code), function)

    taken, backward = at("= net(x)", "step"), at("loss.backward()", "step")
    found = unread_result({"train.py": "\n".join(lines)}, [taken, at("g(x)", "net")], [backward])
    assert (found[1] if found else "") == name
