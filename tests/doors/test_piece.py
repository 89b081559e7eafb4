"""Pieces of a program that runs already: nothing is kept from one to the next, nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import gc, os, sys, tempfile, warnings, weakref
from graphdoc import capture
from graphdoc.doors.piece import Pieces

pieces = Pieces(os.getcwd())
pieces.begin()
import torch  # comes in within the first piece
w = torch.ones(3, requires_grad=True)
(w * w).sum().backward()
first = weakref.ref(pieces._witness)
assert len(first().journal.entries()) == 1 and torch.zeros(1, requires_grad=True).exp().grad_fn.metadata
code = torch.autograd.graph._engine_run_backward.__code__
pieces.begin()
gc.collect()
assert first() is None, gc.get_referrers(first())
assert pieces._witness.journal.entries() == []
try:
    (w * w).sum().backward(torch.ones(5))
except RuntimeError:
    pass
assert os.listdir(pieces._scratch)
scratch = pieces._scratch
pieces.passed()
assert os.listdir(scratch) == []
assert torch.autograd.graph._engine_run_backward.__code__ is not code
assert not torch.is_anomaly_enabled() and not torch.zeros(1, requires_grad=True).exp().grad_fn.metadata
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
assert not hooks
pieces.close()
assert not scratch.exists() and os.listdir() == ["program.py"]
print("done")
"""


def test_nothing_is_kept_and_nothing_left_behind(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "done\n", done.stderr
