"""What a write goes into: the item of a list, or another name of a parameter; and what is proposed in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.fixes.kinds import build
from graphdoc.program.observed import Program
from graphdoc.program.writers import entry_written
from graphdoc.remedies.in_place_write import clone_operand, out_of_place
from graphdoc.remedies.update_order import overwritten_remedies
from graphdoc.source.module import Source

ITEMS = """
cells = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
opt = torch.optim.SGD(cells.parameters(), lr=0.1)

def run(x, state):
    for i, cell in enumerate(cells):
        held = (state[0][:, i], state[1][:, i])
        x = torch.tanh(cell(x)) * held[1] + held[0].exp()
        {write}
    return x, state

x = torch.randn(2, 4)
{start}
for _ in range(2):
    x, state = run(x, state)
x.square().mean().backward()
"""
LIST = ("state[1][:, i] = x", "state = [torch.zeros(2, 3, 4), torch.ones(2, 3, 4)]")
TENSOR = ("state[1][:, i] = x", "state = torch.ones(2, 2, 3, 4)")


def mended(program: Program) -> str:
    assert program.overwrite is not None
    first, *_ = out_of_place(program.evidence, program.overwrite)
    (text,) = build(first.kind, {f: Source(f, t) for f, t in program.sources.items()}, first.args).values()
    return text


def test_the_item_of_a_list_is_exchanged_before_it_is_written(tmp_path: Path) -> None:
    program = asked(tmp_path, ITEMS.format(write=LIST[0], start=LIST[1]))
    assert program.overwrite is not None
    assert {entry_written(program.sources, w) for w in program.overwrite.writers} == {"state[1]"}
    assert "        state[1] = state[1].clone()\n        state[1][:, i] = x\n" in mended(program)


def test_a_part_of_a_tensor_is_no_item(tmp_path: Path) -> None:
    program = asked(tmp_path, ITEMS.format(write=TENSOR[0], start=TENSOR[1]))
    assert program.overwrite is not None
    assert {entry_written(program.sources, w) for w in program.overwrite.writers} == {""}
    assert "        state = state.clone()\n" in mended(program)


SAVED = """
image = torch.rand(3, 4, 4, requires_grad=True)
opt = torch.optim.SGD([image], lr=0.1)

def save(picture):
    grid = picture.contiguous()
    {write}

loss = (image * image.sin()).sum()
save(image.detach())
loss.backward()
"""


def test_what_is_computed_with_another_name_of_a_parameter_is_computed_out_of_place(tmp_path: Path) -> None:
    program = asked(tmp_path, SAVED.format(write="return grid.mul_(255).add_(0.5).byte()"))
    assert program.overwrite is not None
    (only,) = overwritten_remedies(program, program.overwrite)
    (text,) = build(only.kind, {f: Source(f, t) for f, t in program.sources.items()}, only.args).values()
    assert "return grid.mul(255).add(0.5).byte()" in text


def test_a_write_for_its_own_sake_is_put_elsewhere(tmp_path: Path) -> None:
    program = asked(tmp_path, SAVED.format(write="grid.mul_(0.9)"))
    assert program.overwrite is not None
    remedies = overwritten_remedies(program, program.overwrite)
    assert remedies and not any(part["kind"] == "out_of_place" for r in remedies for part in r.parts)


GRAM = """
class Gram(nn.Module):
    def forward(self, x):
        self.held = []
        self.held.append({gram})
        return x

net = nn.Sequential(nn.Conv2d(1, 2, 3), Gram(), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(1))
loss = net(torch.randn(1, 1, 6, 6)).sum() + net[1].held[0].square().mean()
loss.backward()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("gram", "mended"),
    [
        ("torch.mm(x.view(2, -1), x.view(2, -1).t())", "torch.mm(x.view(2, -1).clone(), x.view(2, -1).t().clone())"),
        ("x.view(2, -1) @ x.view(2, -1).t()", "x.view(2, -1).clone() @ x.view(2, -1).t().clone()"),
    ],
)
def test_an_operand_without_a_name_is_cloned_by_what_the_node_calls_it(gram: str, mended: str, tmp_path: Path) -> None:
    program = asked(tmp_path, GRAM.format(gram=gram))
    assert program.overwrite is not None
    (only,) = clone_operand(program.evidence, program.overwrite)
    (text,) = build(only.kind, {f: Source(f, t) for f, t in program.sources.items()}, only.args).values()
    assert mended in text
