"""A derivative that a model computes fails where an installed package evaluates without recording."""

from __future__ import annotations

from pathlib import Path

from installed import ON_PATH, install
from seen import observe

FITTER = {
    "tinyfit/__init__.py": "from .loop import fit\n",
    "tinyfit/loop.py": """\
        import torch


        def evaluated(run):
            def wrapped(*args):
                with torch.no_grad():
                    return run(*args)

            return wrapped


        @evaluated
        def evaluate(model, batches):
            return [model.check(batch) for batch in batches]


        def fit(model, optimizer, batches):
            for batch in batches:
                optimizer.zero_grad()
                model.learn(batch).backward()
                optimizer.step()
            return evaluate(model, batches)
        """,
}
FORCES = (
    ON_PATH
    + """
import torch
from torch import nn
from tinyfit import fit


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        energy = self.outer(torch.tanh(self.inner(x))).sum()
        return torch.autograd.grad(energy, x, create_graph=True)[0]

    def learn(self, batch):
        x = batch.clone().requires_grad_()
        return self(x).square().mean()

    def check(self, batch):
        return self.learn(batch).item()


torch.manual_seed(0)
model = Potential()
print(fit(model, torch.optim.SGD(model.parameters(), lr=0.1), list(torch.randn(2, 4, 3))))
"""
)
LOSS = FORCES.replace(
    "        return self.learn(batch).item()\n",
    "        loss = self.inner(batch).square().mean()\n        loss.backward()\n        return loss.item()\n",
)


def test_the_call_that_computes_and_differentiates_is_recorded(tmp_path: Path) -> None:
    install(tmp_path, "tiny-fit", "1.0", FITTER)
    told = observe(tmp_path, FORCES)
    assert told.slugs[0] == "cut-by-no-grad"
    (remedy,) = told.found[0].finding.remedies
    assert remedy.kind == "enable_grad_block"
    ((_, patched),) = told.patches()
    (text,) = patched.values()
    assert "        with torch.enable_grad():\n            return self(x).square().mean()\n" in text


def test_a_loss_that_is_differentiated_in_an_evaluation_is_not(tmp_path: Path) -> None:
    install(tmp_path, "tiny-fit", "1.0", FITTER)
    told = observe(tmp_path, LOSS)
    assert told.slugs[0] == "cut-by-no-grad"
    assert not told.found[0].finding.remedies
