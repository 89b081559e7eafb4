"""Where nothing keeps a run from the user's files none is made, and none is announced."""

from __future__ import annotations

from pathlib import Path

from commands import graphdoc

OVERWRITTEN = """\
import torch
w = torch.ones(3, requires_grad=True)
def add(y):
    y.detach().add_(1)
y = w.exp()
add(y)
y.sum().backward()
"""


def test_a_run_that_cannot_be_is_not_announced(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OVERWRITTEN)
    told = graphdoc(tmp_path, "run", "train.py", GRAPHDOC_ISOLATION="none").stderr
    assert "GD2" in told and "cannot be kept from your files" in told and "once more" not in told, told
    tried = graphdoc(tmp_path, "fix", "--diff", GRAPHDOC_ISOLATION="none").stderr
    assert "cannot be kept from your files" in tried and "running train.py again" not in tried, tried
