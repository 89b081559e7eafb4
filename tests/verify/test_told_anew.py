"""What `graphdoc run` would tell of a patched program, and of no run of the unpatched one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracing import traced

from graphdoc.verify.failing_again import told_anew
from graphdoc.verify.trial import original_line

CARRIED = """
import torch
from torch import nn

torch.manual_seed(0)
embed, cell, head = nn.Linear(3, 4), nn.GRUCell(4, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*embed.parameters(), *cell.parameters(), *head.parameters()], lr=0.1)
state = torch.zeros(2, 4)
for step in range(40):
    x = torch.randn(2, 3)
    state = cell(embed(x), state)
    loss = (head(state) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
PILED = CARRIED.replace("    opt.zero_grad()\n", "")


DETACHED = ("    opt.step()\n", "    opt.step()\n    state = state.detach()\n")
CUT, UNCLEARED = ("embed(x)", "embed(x).detach()"), ("    opt.zero_grad()\n", "")
WARM_UP = "warm_up = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: float(step > 35))\n"
LATE = [("state = torch", f"{WARM_UP}state = torch"), ("    opt.step()\n", "    opt.step()\n    warm_up.step()\n")]


@pytest.mark.parametrize(
    ("source", "edits", "ended", "told"),
    [
        (CARRIED, [DETACHED], True, []),
        (CARRIED, [DETACHED, CUT], True, ["GD302"]),
        (CARRIED, [DETACHED, *LATE], True, []),
        (CARRIED, [DETACHED, UNCLEARED], True, ["GD705"]),
        (CARRIED, [DETACHED, UNCLEARED], False, []),  # a later step of a run that was stopped may clear them
        (PILED, [DETACHED], True, []),
        (PILED, [DETACHED, CUT], True, ["GD302"]),
    ],
)
def test_what_a_patch_brings_is_told_and_not_what_the_program_has_by_itself(
    source: str, edits: list[tuple[str, str]], ended: bool, told: list[str], tmp_path: Path
) -> None:
    """The unpatched program fails before most of its own faults can be seen; its run that is made to go on shows them.
    What was so for a while and is no longer at the end is none."""
    patched = source
    for old, new in edits:
        assert old in patched
        patched = patched.replace(old, new)
    before = [traced(tmp_path / mode, source, f"verify:{mode}").evidence for mode in ("-1", "reference")]
    seen = traced(tmp_path / "patched", patched, "verify:-1").evidence
    path = str((tmp_path / "patched" / "train.py").resolve())
    back = original_line({path: source}, {path: patched}, str(tmp_path / "patched"))
    found = told_anew(seen, [e for e in before if e], {"train.py": patched}, back, ended) if seen else []
    assert [one.cause.code for one in found] == told
