"""Lists of lists of tensors that ``torch.tensor`` makes numbers of: joined row by row where they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

CODE = """\
import torch
from torch import nn
torch.manual_seed(0)
angle = nn.Parameter(torch.zeros({shape}))
optimizer = torch.optim.SGD([angle], 0.1)
for _ in range(3):
    c, s = angle.cos(), angle.sin()
    {rows}
    loss = (turn @ torch.ones(2, 1)).square().sum() + 0.0 * turn.shape[0] * turn.dim()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("shape", ["1", "()"])
def test_rows_that_are_written_are_joined_in_their_shape(tmp_path: Path, shape: str) -> None:
    code = CODE.format(shape=shape, rows="turn = torch.tensor([[c, -s], [s, c]])")
    seen = observe(tmp_path / "sick", code)
    assert seen.slugs[0] == "cut-by-conversion"
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


def test_rows_that_were_put_into_a_list_are_not_joined_as_tensors(tmp_path: Path) -> None:
    rows = "rows = []\n    rows.append([c, -s])\n    rows.append([s, c])\n    turn = torch.tensor(rows)"
    seen = observe(tmp_path, CODE.format(shape="()", rows=rows))
    assert seen.slugs[0] == "cut-by-conversion" and not seen.patches()
