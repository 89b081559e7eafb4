"""Calls that PyTorch refuses: the place is where the fault was set up, the trace of a compiled function included."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

TOTAL = """\
import torch
net = torch.nn.Linear(4, 4)

def energy(x):
    total = torch.zeros({size})
    total += net(x).square()
    return total.sum()

torch.vmap(energy)(torch.randn(8, 4)).mean().backward()
"""
OPERATOR = """\
import torch

@torch.library.custom_op("graphdoc_tests::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2

y = double(torch.nn.Linear(2, 2)(torch.randn(3, 2)))
y.sum().backward()
"""
COMPILED = """\
import torch
net = torch.nn.Linear(2, 2)

@torch.compile(backend="aot_eager", fullgraph=True)
def f(x):
    h = net(x)
    h.retain_grad()
    return (h * h).sum()

f(torch.randn(3, 2)).backward()
"""


def test_a_target_with_one_dimension_too_few_under_vmap(tmp_path: Path) -> None:
    seen = observe(tmp_path, TOTAL.format(size=4))
    assert seen.slugs == ["inplace-under-transform"] and seen.found[0].finding.confidence == "likely"
    assert seen.lines("cause") == ["total = torch.zeros(4)"]
    (kind, texts), *_ = seen.patches()
    assert kind == "use_instead" and "total = x.new_zeros(4)" in texts["train.py"]
    assert observe(tmp_path / "mended", texts["train.py"]).mended


def test_a_target_of_another_size_is_an_ordinary_exception(tmp_path: Path) -> None:
    assert observe(tmp_path, TOTAL.format(size=1)).slugs == []


def test_an_operator_without_a_derivative_is_told_where_it_is_defined_and_used(tmp_path: Path) -> None:
    seen = observe(tmp_path, OPERATOR)
    assert seen.slugs == ["call-refused"]
    assert seen.lines("cause") == ['@torch.library.custom_op("graphdoc_tests::double", mutates_args=())']
    assert seen.lines("created") == ["y = double(torch.nn.Linear(2, 2)(torch.randn(3, 2)))"]
    remedy = seen.found[0].finding.remedies[0]
    assert (remedy.kind, remedy.safety) == ("register_derivative", "placeholders")
    assert list(remedy.placeholders) == ["GRADIENT_OF_X"]


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "head",
    [
        '@torch.library.custom_op("graphdoc_tests::" + "double", mutates_args=())',  # a name that no source shows
        '@torch.library.custom_op("graphdoc_tests::double", mutates_args="unknown")',
        '@torch.library.custom_op("graphdoc_tests::double", mutates_args=(), schema="(Tensor x) -> Tensor")',
    ],
)
def test_an_operator_that_no_derivative_can_be_written_for_is_told_in_words(tmp_path: Path, head: str) -> None:
    program = OPERATOR.replace('@torch.library.custom_op("graphdoc_tests::double", mutates_args=())', head)
    if "schema" in head:
        program = program.replace("x: torch.Tensor) -> torch.Tensor", "x)")
    remedy = observe(tmp_path, program).found[0].finding.remedies[0]
    assert remedy.safety == "display" and "register_autograd" in remedy.title and "setup" in remedy.note


def test_a_compiled_function_is_told_at_the_line_that_was_traced(tmp_path: Path) -> None:
    seen = observe(tmp_path, COMPILED)
    assert seen.slugs == ["call-refused"] and seen.lines("cause") == ["h.retain_grad()"]
    patch, words = seen.found[0].finding.remedies
    assert patch.kind == "drop_keyword" and "retain_grad()" in words.title
