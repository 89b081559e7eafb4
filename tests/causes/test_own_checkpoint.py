"""A checkpoint that a library or program has written itself raises with words like PyTorch's."""

from __future__ import annotations

from pathlib import Path

from seen import observe

CODE = """\
import torch


class Saved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        with torch.enable_grad():
            out = ctx.run(x.detach())
        if not out.requires_grad:
            raise RuntimeError("None of the outputs have requires_grad=True, this checkpoint() is not necessary")
        return None, grad


frozen = torch.nn.Linear(3, 3).requires_grad_(False)
start = torch.randn(2, 3, requires_grad=True)
out = Saved.apply(frozen, start)
out.sum().backward()
"""


def test_its_call_is_the_place(tmp_path: Path) -> None:
    seen = observe(tmp_path, CODE)
    assert seen.slugs == ["checkpoint-no-grad-input"]
    assert seen.lines("cause") == ["out = Saved.apply(frozen, start)"]
    assert not seen.found[0].finding.remedies
