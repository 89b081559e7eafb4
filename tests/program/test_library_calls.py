"""A call is PyTorch's where the file's own imports say so."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Evidence
from graphdoc.program.library_calls import library_calls


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("import re\nimport torch\nre.compile('a')\nfast = torch.compile(net)\n", [4]),
        ("from torch import compile as build\nbuild(net)\ncompile('1', 'f', 'eval')\n", [2]),
        ("import torch\n@torch.compile\ndef f(x): ...\n", [2]),
        ("import torch\n@torch.compile(dynamic=True)\ndef f(x): ...\n", [2]),
        ("from torch._dynamo import x\nfrom regex import compile\ncompile('a')\n", []),
        ("def compile(x): ...\ncompile(1)\n", []),
        ("class A:\n    def go(self):\n        self.compile(1)\n", []),
        ("import torch as t\nt.compile(net)\n", [2]),
        ("compile(net)\n", []),
        ("from torch import *\ncheckpoint(net, x)\n", [2]),
    ],
)
def test_which_calls_are_torchs(program: str, lines: list[int]) -> None:
    found = library_calls(Evidence(sources={"train.py": program}).sources, "compile", "checkpoint")
    assert [f.line for f in found] == lines
