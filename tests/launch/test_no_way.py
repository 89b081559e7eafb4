"""Where nothing keeps a run from the user's files none is made, and none is announced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from commands import graphdoc

import graphdoc as graphdoc_package

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
    told = graphdoc(tmp_path, "run", "train.py", forked=True, GRAPHDOC_ISOLATION="none").stderr
    assert "GD2" in told and "cannot be kept from your files" in told and "once more" not in told, told
    tried = graphdoc(tmp_path, "fix", "--diff", GRAPHDOC_ISOLATION="none").stderr
    assert "cannot be kept from your files" in tried and "running train.py again" not in tried, tried


@pytest.mark.slow
def test_a_python_without_torch_tries_nothing(tmp_path: Path) -> None:
    """graphdoc may be installed beside the environment that the program needs."""
    (tmp_path / "train.py").write_text(OVERWRITTEN)
    first = graphdoc(tmp_path, "run", "--no-rerun", "train.py")
    assert "GD2" in first.stderr
    bare = tmp_path / "bare"
    bare.mkdir()
    for place in (Path(typer.__file__).parents[1], Path(graphdoc_package.__file__).parents[1]):
        for found in (p for p in place.iterdir() if p.name.split("-")[0] not in ("torch", "functorch", "torchgen")):
            if not (bare / found.name).exists():
                (bare / found.name).symlink_to(found)
    tried = graphdoc(tmp_path, "fix", "--diff", flags=("-S",), PYTHONPATH=str(bare))
    assert "has no torch" in tried.stderr and "running" not in tried.stderr, tried.stderr
    assert tried.stdout.startswith("--- a/train.py"), tried.stderr
    (kept,) = (tmp_path / ".graphdoc").glob("*/run.json")
    assert not (kept.parent / "trials").exists()  # where there is one, it is tried
    told = graphdoc(tmp_path, "fix", "--diff").stderr
    assert "[safe, verified]" in told, told
    missed = graphdoc(tmp_path, "run", "train.py", flags=("-S",), PYTHONPATH=str(bare))
    assert missed.returncode == 1 and f"Python, {sys.executable}, which has no torch; install" in missed.stderr


LOOP = """\
m = torch.nn.Linear(4, 4); o = torch.optim.SGD(m.parameters(), lr=.1)
for i in range(5):
    y = m(torch.ones(2, 4)).exp()
    if i == 1: y += 1
    o.zero_grad(); y.sum().backward(); o.step()
"""


@pytest.mark.slow
def test_what_is_said_of_verify_is_done(tmp_path: Path) -> None:
    """Where it is only seen in the run that something cannot be kept from the user's files."""
    (tmp_path / "train.py").write_text(
        f"import subprocess, torch\nsubprocess.run(['sh', '-c', 'echo >> made'])\n{LOOP}"
    )
    graphdoc(tmp_path, "run", "--no-rerun", "train.py")
    words = ("fix", "--diff", "--verify-time", "200")
    told = graphdoc(tmp_path, *words, GRAPHDOC_ISOLATION="layer")
    assert "starts another program (sh)" in told.stderr and "(--verify runs it all the same)" in told.stderr
    assert (tmp_path / "made").read_text() == "\n"
    told = graphdoc(tmp_path, *words, "--verify", GRAPHDOC_ISOLATION="layer")
    assert "verified" in told.stderr and "not verified" not in told.stderr, told.stderr
    assert len((tmp_path / "made").read_text()) > 1


@pytest.mark.slow
def test_a_patch_is_not_verified_by_a_signal_to_others(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as side:
        (tmp_path / "train.py").write_text(
            "import os, sys, torch\nif os.environ.get('SIDE'): os.kill(int(os.environ['SIDE']), 15)\n" + LOOP
        )
        graphdoc(tmp_path, "run", "--no-rerun", "train.py")
        told = graphdoc(
            tmp_path, "fix", "--diff", "--verify-time", "200", GRAPHDOC_ISOLATION="layer", SIDE=str(side.pid)
        )
        alive = side.poll() is None
        side.kill()
    assert alive and "(a trial reaches no other processes)" in told.stderr, told.stderr
