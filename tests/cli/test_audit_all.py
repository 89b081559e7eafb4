"""``--audit=all``: what only may be a fault is a finding on request, and one line by default."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest
from commands import graphdoc

BESIDE_THE_OPTIMIZER = """\
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for _ in range(30):
    x = torch.randn(16, 4)
    loss = (head(body(x).relu()) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


LAST_GROUP_EMPTY = BESIDE_THE_OPTIMIZER.replace("body.parameters()", "[{'params': body.parameters()}, {'params': []}]")
"""A group of norm layers, of a model that has none."""
MEASURED_TOO = BESIDE_THE_OPTIMIZER.replace(
    "torch.manual_seed(0)\n",
    """\
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

torch.manual_seed(0)
""",
).replace("head(body(x)", "head(Double.apply(body(x))")
"""A second run asks whether the Function's backward is right, and its answer stands beside what the first one saw."""
CUT_BY_THE_MODEL = """\
import torch
from torch import nn

torch.manual_seed(0)
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        score = (self.query(x) @ self.query(x).transpose(1, 2)).detach()
        return self.out(score.softmax(-1) @ x)

model = Mixer()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(4, 7, 8)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), (x[..., 0] > 0).long().flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
"""`model.parameters()` was handed over as a whole, so the `detach()` may be meant."""


def run(folder: Path, program: str, *options: str) -> CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    return graphdoc(folder, "run", *options, "train.py", forked=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "code", "finding", "note"),
    [
        (BESIDE_THE_OPTIMIZER, "GD701", "no optimizer holds `head.*`", "no optimizer uses the gradients of"),
        (LAST_GROUP_EMPTY, "GD701", "no optimizer holds `head.*`", "no optimizer uses the gradients of"),
        (MEASURED_TOO, "GD701", "no optimizer holds `head.*`", "no optimizer uses the gradients of"),
        (CUT_BY_THE_MODEL, "GD302", "`detach()` ends the graph", "`model.query.*` (2 parameters) receive no gradient"),
    ],
)
def test_what_may_be_meant_is_a_finding_on_request_and_one_line_without(
    tmp_path: Path, program: str, code: str, finding: str, note: str
) -> None:
    asked = run(tmp_path, program, "--audit=all")
    assert asked.returncode == 0
    told = " ".join(asked.stderr.split())
    assert code in told and finding in told and "possible" in told
    plain = run(tmp_path, program)
    assert (plain.returncode, plain.stdout) == (0, "")
    said = " ".join(plain.stderr.split())
    assert note in said and "warning" not in said
    assert said.endswith("`graphdoc run --audit all` tells more.")
    assert run(tmp_path, program, "--strict").returncode == 0


@pytest.mark.slow
def test_a_cut_that_is_to_be_ignored_is_no_line_either(tmp_path: Path) -> None:
    program = CUT_BY_THE_MODEL.replace(".detach()\n", ".detach()  # graphdoc: ignore[GD302]\n")
    assert program != CUT_BY_THE_MODEL
    said = run(tmp_path, program).stderr
    assert "once more" in said and "note:" not in said
    assert said.endswith("\ngraphdoc: looked closer: nothing to report\n")
