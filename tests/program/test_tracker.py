"""What an expression may stand for, followed behind names, entries and arguments."""

from __future__ import annotations

import ast

import pytest

from graphdoc.evidence import Frame, Parameter
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import one_shot
from graphdoc.program.gradient_reads import gradient_is_read
from graphdoc.program.tracker import may_mean
from graphdoc.source.module import each

_KEPT = """\
class Holder:
    def __init__(self, o):
        self.o = o

    def go(self):
        self.o.step()
"""
_OWN = "class Holder:\n    def go(self):\n        self.o.step()\n"
_STEP = "def advance(of):\n    of.step()\n\n\n"


@pytest.mark.parametrize(
    ("program", "meant"),
    [
        ("opt.step()", {("opt", 1)}),
        ("held['one'] = opt\nheld['one'].step()", {("opt", 2)}),
        ("part = opt\npart.step()", {("opt", 2)}),
        ("part = opt\nfor part in every:\n    part.step()", {("part", 3)}),
        (f"{_STEP}advance(one)\nadvance(two)", {("one", 5), ("two", 6)}),
        (f"{_STEP}advance(one)\nadvance(*two)", {("of", 2)}),
        (f"{_KEPT}\n\nHolder(opt)", {("opt", 6)}),
        (f"{_OWN}\n\none.go()\ntwo.go()", {("one.o", 3), ("two.o", 3)}),
        (f"{_OWN}\n\nmake().go()", {("self.o", 3)}),
    ],
)
def test_what_is_stepped(program: str, meant: set[tuple[str, int]]) -> None:
    sources = {"train.py": program}
    call = next(
        c for c in each(bindings.tree(sources, "train.py"), ast.Call) if bindings.text_of(c).endswith(".step()")
    )
    assert isinstance(call.func, ast.Attribute)
    found = may_mean(sources, bindings.frame_of(sources, "train.py", call), call.func.value)
    assert {(bindings.text_of(m.value), m.use.line) for m in found} == meant


@pytest.mark.parametrize(
    ("program", "read"),
    [
        ("rate = held['weight'].grad", True),
        ("def look(at):\n    print(at.grad)\n\n\nlook(held['weight'])", True),
        ("for one in (held['weight'], other):\n    print(one.grad)", True),
        ("rate = held['other'].grad", False),
        ("held['weight'].grad = None", False),
    ],
)
def test_whose_gradient_is_read(program: str, read: bool) -> None:
    assert gradient_is_read({"train.py": program}, "held['weight']") is read


@pytest.mark.parametrize(("name", "told"), [("net.layers.0.weight", True), ("net.layers[0].weight", False)])
def test_an_iterator_over_what_lies_in_a_plain_list_was_empty_from_the_start(name: str, told: bool) -> None:
    sources = {"train.py": "weights = net.parameters()\nopt = SGD(weights)\n"}
    call = bindings.call_at(sources, Frame("train.py", 2))
    assert call is not None
    assert (one_shot(sources, [Parameter(name)], [Frame("train.py", 2)], call.args[0]) is not None) is told
