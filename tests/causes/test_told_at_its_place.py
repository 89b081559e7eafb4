"""Places, titles and advice that once were those of a neighbouring fault: two calls in one iteration told as two
iterations, the second of two lists for the first, the start of a value for what renews it."""

from __future__ import annotations

from pathlib import Path

from seen import observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

SCALED = """
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for x in torch.randn(3, 2, 4, 3):
    for part in x:
        scaler.scale(model(part).square().mean()).backward()
        scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
"""

OTHERS = """
student, teacher = nn.Linear(3, 1), nn.Linear(3, 1)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(teacher(torch.randn(4, 3)).square().mean()).backward()
scaler.step(opt)
"""

KEPT = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def update(x):
    net.zero_grad(set_to_none=False)
    net(x).pow(2).mean().backward()
    first = [p.grad for p in net.parameters()]
    net.zero_grad(set_to_none=False)
    net(x).abs().mean().backward()
    second = [p.grad for p in net.parameters()]
    print(sum((a * b).sum() for a, b in zip(first, second)))
    opt.step()


for x in torch.randn(5, 4, 3):
    update(x)
"""

RATE = """
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(6):
    opt.param_groups[0]["lr"] = 0.1 if i < 3 else float("inf")
    opt.zero_grad()
    net(torch.randn(5, 4)).square().mean().backward()
    opt.step()
"""

RENEWED = """
class Body(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.linear, self.table = nn.Linear(6, 4), table

    def forward(self, x):
        code = self.linear(x)
        self.table["m"] = 0.9 * self.table["m"] + 0.1 * code.mean(0)
        return code


table = {"m": torch.zeros(4)}
body = Body(table)
opt = torch.optim.SGD(body.parameters(), lr=0.1)
for _ in range(3):
    loss = body(torch.randn(8, 6)).square().mean() + table["m"].square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

LAST = """
class Trainer:
    def __init__(self, model):
        self.model, self.opt, self.last = model, torch.optim.SGD(model.parameters(), lr=0.1), None

    def step(self, x):
        loss = self.model(x).square().mean()
        total = loss if self.last is None else loss + 0.5 * torch.relu(loss - self.last)
        self.last = loss
        self.opt.zero_grad()
        total.backward()
        self.opt.step()


trainer = Trainer(nn.Linear(4, 1))
for _ in range(4):
    trainer.step(torch.randn(5, 4))
"""


def test_unscaled_after_each_of_two_batches_is_twice_for_one_step(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + SCALED)
    assert seen.slugs[0] == "amp-scaler-misuse"
    assert "twice for one step" in seen.said and "earlier iteration" not in seen.said


def test_gradients_of_others_are_named(tmp_path: Path) -> None:
    assert "reached `teacher.*` (2 parameters) alone" in observe(tmp_path, HEAD + OTHERS).said


def test_the_list_that_the_title_names_comes_first(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + KEPT)
    assert seen.found[0].finding.title.startswith("`first` keeps")
    assert seen.lines("cause")[0].startswith("first = ")


def test_a_rate_that_is_infinite_is_not_mended_by_eps(tmp_path: Path) -> None:
    (remedy,) = observe(tmp_path, HEAD + RATE).found[0].finding.remedies
    assert "rate" in remedy.title and "eps" not in remedy.title


def test_what_renews_a_value_is_the_place_not_what_starts_it(tmp_path: Path) -> None:
    assert observe(tmp_path, HEAD + RENEWED).lines("cause")[0].startswith('self.table["m"] = ')


def test_a_value_goes_by_the_name_that_the_next_round_reads(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + LAST)
    assert seen.found[0].finding.title == "`self.last` carries the last iteration's graph into this one"
    assert seen.lines("cause")[0] == "self.last = loss"
