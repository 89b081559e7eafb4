"""What stands at a position: the interpreter's own positions must find their expressions, odd input gives None."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

import ast
import dis
import types
from pathlib import Path

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.carried_names import bound_names
from graphdoc.source.concrete import rewritten
from graphdoc.source.module import Source, parsed
from graphdoc.source.places import Place
from graphdoc.source.scopes import imported_as, name_for

UGLY = Path(__file__).parents[1] / "ugly"
PROGRAM = '''\
import torch

class Net(torch.nn.Module):
    def forward(self, x, *, scale=1):
        """Doc."""
        for step in range(3):
            seq, self.state = self.rnn(x, self.state)  # line 7
            self.h = h = torch.tanh(
                seq * scale)
        out = (h
               .sum()
               .relu())
        return out + self.bias["b"][0].mul(x, *seq, k=scale)
'''


def codes(code: types.CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def operations(source: Source) -> list[tuple[str, Place]]:
    """The places that the interpreter would report for calls, operators and attribute reads."""
    found = []
    for code in codes(compile(source.code, source.file, "exec", dont_inherit=True)):
        for instruction in dis.get_instructions(code):
            at = instruction.positions
            if instruction.opname not in (
                "CALL",
                "BINARY_OP",
                "LOAD_ATTR",
                "LOAD_METHOD",
                "BINARY_SUBSCR",
                "COMPARE_OP",
            ):
                continue
            if (
                at is None
                or at.lineno is None
                or at.end_lineno is None
                or at.col_offset is None
                or not at.end_col_offset
            ):
                continue

            def column(line: int, byte: int) -> int:
                return source.lines.from_bytes(line, byte) - source.lines.start(line) + 1

            found.append(
                (
                    instruction.opname,
                    Place(
                        source.file,
                        at.lineno,
                        column(at.lineno, at.col_offset),
                        at.end_lineno,
                        column(at.end_lineno, at.end_col_offset),
                    ),
                )
            )
    return found


@pytest.mark.parametrize("path", [None, *sorted(UGLY.glob("*.py"))], ids=lambda p: p.stem if p else "program")
def test_positions_of_the_interpreter(path):
    text = PROGRAM if path is None else path.read_bytes().decode("latin-1" if path.stem == "latin1" else "utf-8")
    source = Source("a.py", text)
    places = operations(source)
    assert places and source.tree is not None
    in_strings = [source.place(n) for n in ast.walk(source.tree) if isinstance(n, ast.JoinedStr)]
    for name, place in places:
        if any((s.line, s.column) <= (place.line, place.column) <= (s.end_line, s.end_column) for s in in_strings):
            continue  # before Python 3.12 the positions inside an f-string are not exact
        node = source.node_expression(place)
        owner = source.node_statement(place)
        # ``x += y``, ``del``, the implicit calls of with and class statements, decorators and imports have their own;
        # so has the call that makes the error of an assert, from Python 3.13 on
        other = isinstance(owner, ast.AugAssign | ast.With | ast.AsyncWith | ast.ClassDef | ast.FunctionDef)
        other = other or isinstance(owner, ast.ImportFrom | ast.Try | ast.TryStar | ast.Match | ast.Assert)
        assert node is not None or other, (name, place)


@pytest.fixture
def source():
    return Source("a.py", PROGRAM)


def test_bound_names():
    assert bound_names({"a.py": PROGRAM}, Frame("a.py", 7)) == ["seq", "self.state"]
    assert bound_names({"a.py": PROGRAM}, Frame("a.py", 8)) == ["self.h", "h"]


def test_operands(source):
    line = PROGRAM.splitlines()[6]
    place = Place("a.py", 7, line.index("self.rnn") + 1, 7, line.index("  #") + 1)
    assert source.operands(place) in (("self", "x", "self.state"), ("x", "self.state"))


@pytest.mark.parametrize(
    "text", ["", "\x00", "def f(:", "x = (", "if x:\n", "é" * 3, "(" * 300, "\ufeff", "# only a comment"]
)
def test_odd_input_gives_none(text):
    source = Source("a.py", text)
    place = Place("a.py", 1, 1, 1, 2)
    assert source.node_statement(Place("a.py", 7)) is None
    assert source.operands(place) == () or text == "é" * 3
    assert source.node_expression(Place("a.py", 50, 60, 70, 80)) is None
    assert rewritten(source, []) == text


@pytest.mark.parametrize(
    ("text", "dotted", "expected"),
    [
        ("import torch\n", "torch.no_grad", "torch.no_grad"),
        ("import torch as th\n", "torch.no_grad", "th.no_grad"),
        ("from torch import no_grad\n", "torch.no_grad", "no_grad"),
        ("from torch import *\n", "torch.no_grad", "no_grad"),
        ("import torch\nimport torch.nn.functional as F\n", "torch.nn.functional.linear", "F.linear"),
        ("from torch import nn\n", "torch.nn.functional.linear", "nn.functional.linear"),
        ("from .torch import nn\n", "torch.nn.ModuleList", None),
        ("import torchvision\n", "torch.no_grad", None),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", "torch.no_grad", "torch.no_grad"),
        ("def g():\n    import torch\n", "torch.no_grad", None),
    ],
)
def test_names_of_torch(text, dotted, expected):
    assert imported_as(Source("a.py", text), dotted) == expected


def test_a_parameter_hides_an_import():
    source = Source("a.py", "import torch\ndef f(torch):\n    return torch\n")
    assert imported_as(source, "torch.no_grad", source.node_statement(Place("a.py", 3))) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", "import torch\nx = 1\n"),
        ("#!/usr/bin/env python\n# coding: utf-8\n\nx = 1\n", "#!/usr/bin/env python\n# coding: utf-8\n\nimport torch\nx = 1\n"),
        ('"""Doc."""\n\nx = 1\n', '"""Doc."""\nimport torch\n\nx = 1\n'),
        ("from __future__ import annotations\r\nx = 1\r\n", "from __future__ import annotations\r\nimport torch\r\nx = 1\r\n"),
        ("import os; import sys  # both\nx = 1\n", "import os; import sys  # both\nimport torch\nx = 1\n"),
        ("import os; x = 1\n", "import os; import torch; x = 1\n"),
        ("\ufeffx = 1", "\ufeffimport torch\nx = 1"),
    ],
)  # fmt: skip
def test_adds_an_import(text, expected):
    source = Source("a.py", text)
    assert rewritten(source, name_for(source, "torch.no_grad").edits) == expected


def test_a_text_is_parsed_once_for_all_who_ask() -> None:
    text = "\ufeffx = 1\n"
    assert Source("a.py", text).tree is Source("b.py", text).tree is parsed(text)
