"""A finding that is meant is left out, by the settings or by a comment on its line; a crash is told all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import graphdoc

SUMMED = """\
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(30):
    loss = net(torch.randn(16, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
TWICE = "import torch\nx = torch.ones(2, requires_grad=True)\ny = (x**2).sum()\ny.backward()\ny.backward()\n"


def told(folder: Path, text: str) -> tuple[list[str], int, int]:
    """The codes of a run, the line of the first one, and the exit status under ``--strict``."""
    (folder / "train.py").write_text(text)
    done = graphdoc(folder, "run", "--strict", "--report", "json:r.json", "train.py", forked=True)
    found = json.loads((folder / "r.json").read_text())["diagnoses"]
    lines = [s["line"] for d in found for s in d["spans"] if s["role"] == "cause"]
    return [d["code"] for d in found], lines[0] if lines else 0, done.returncode


def commented(text: str, line: int, comment: str) -> str:
    lines = text.splitlines()
    lines[line - 1] += f"  # {comment}"
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_a_comment_on_the_line_or_the_settings_leave_a_finding_out(tmp_path: Path) -> None:
    codes, line, status = told(tmp_path, SUMMED)
    assert (codes, status) == (["GD705"], 1)
    assert told(tmp_path, commented(SUMMED, line, "graphdoc: ignore[GD704]"))[0] == ["GD705"]
    assert told(tmp_path, commented(SUMMED, line - 1, "graphdoc: ignore[GD705]"))[0] == ["GD705"]
    assert told(tmp_path, commented(SUMMED, line, "graphdoc: ignore[GD704, GD705]")) == ([], 0, 0)
    (tmp_path / "pyproject.toml").write_text('[tool.graphdoc]\nignore = ["GD705"]\n')
    assert told(tmp_path, SUMMED) == ([], 0, 0)


def test_a_crash_is_always_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.graphdoc]\nignore = ["GD107"]\n')
    assert told(tmp_path, commented(TWICE, 5, "graphdoc: ignore[GD107]"))[0] == ["GD107"]


def test_what_is_no_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    for wrong in ('["zero-grad-missing"]', '"GD705"', "[705]"):
        (tmp_path / "pyproject.toml").write_text(f"[tool.graphdoc]\nignore = {wrong}\n")
        done = graphdoc(tmp_path, "run", "train.py", forked=True)
        assert done.returncode == 2 and not done.stdout and "ignore" in done.stderr and done.stderr.count("\n") == 1
