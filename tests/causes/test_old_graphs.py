"""Old graphs: what a value is to the loss, which of its makers gave a tensor, and which ways out are worth offering."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import Seen, observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

KERNEL = """
class Kernel(nn.Module):
    def __init__(self, size, noise):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(size))
        self.scale = nn.Parameter(torch.zeros(()))
        self.width = torch.exp(self.raw)
        self.height = torch.sigmoid(self.scale)
        self.noise = noise

    def forward(self, x):
        return self.height * torch.exp(-(x / self.width).square().sum(-1)) + self.noise


class Model(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.kernel = Kernel(x.shape[1], 0.1)

    def loss(self, x):
        return self.kernel(x).square().mean()


def fit(model, x):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        opt.zero_grad()
        loss = model.loss(x)
        loss.backward()
        opt.step()


X = torch.randn(6, 3)
fit(Model(X), X)
"""

RATIO = """
def score(net, ids):
    return net(ids).log_softmax(-1)[:, 0]


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def prepare(self):
        ids = torch.randn(5, 3)
        batch = {"ids": ids, "mean": ids.mean().item()}
        batch["old"] = score(self.net, ids)
        return batch

    def update(self, batch):
        for epoch in range(2):
            new = score(self.net, batch["ids"])
            loss = -(new - batch["old"]).exp().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


def main():
    trainer = Trainer(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)))
    for step in range(2):
        batch = trainer.prepare()
        trainer.update(batch)


main()
"""

# The same shape of program; but nothing computes the value anew, so it is no reference: the scale learns through it.
OFFSET = RATIO.replace("torch.randn(5, 3)", "torch.randn(5, 3)").replace(
    'new = score(self.net, batch["ids"])', 'new = batch["ids"][:, 0]'
)

REPLAY = """
import random
from collections import deque, namedtuple

random.seed(0)
Step = namedtuple("Step", "code action after")
encoder, cell = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.GRUCell(2, 4)


def collect(memory, count):
    code = encoder(torch.randn(1, 3))
    for _ in range(count):
        after = encoder(torch.randn(1, 3))
        memory.append(Step(code, torch.randn(1, 2), after))
        code = after


def learn(opt, memory):
    for _ in range(2):
        steps = Step(*map(torch.cat, zip(*random.sample(memory, 4))))
        loss = (cell(steps.action, steps.code) - steps.after).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    opt = torch.optim.SGD(PARAMETERS, lr=0.1)
    memory = deque(maxlen=16)
    for episode in range(2):
        collect(memory, 6)
        print(f"{learn(opt, memory):.3f}")


main()
"""

ENCODED = REPLAY.replace("PARAMETERS", "[*encoder.parameters(), *cell.parameters()]")
DATA = REPLAY.replace("PARAMETERS", "cell.parameters()")

EPISODES = """
import random

random.seed(1)
policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
opt = torch.optim.SGD(policy.parameters(), lr=0.1)
memory = []


def play():
    scores = []
    for _ in range(3):
        scores.append(policy(torch.randn(3)).log_softmax(-1)[0])
    memory.append({"scores": scores, "gain": random.random()})


for episode in range(6):
    play()
    if episode < 2:
        continue
    loss = -sum(torch.stack(e["scores"]).sum() * e["gain"] for e in random.sample(memory, 2))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

SUM = """
def epoch(net, opt, batches):
    total, seen = 0.0, []
    opt.zero_grad()
    for step, x in enumerate(batches):
        loss = net(x).square().mean()
        total = total + loss
        total.backward()
        if (step + 1) % 2 == 0:
            opt.step()
            opt.zero_grad()
            seen.append(total.item())
            total = 0.0


net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
epoch(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(4, 5, 3))
"""

MASK = """
class Tagger(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.embed = nn.Sequential(nn.Embedding(6, 4), nn.LayerNorm(4))
        self.out = nn.Linear(4, 6)
        self.masked = self.embed(torch.tensor([mask]))

    def forward(self, ids):
        code = self.embed(ids)
        return self.out(0.5 * self.masked.tanh() + code)


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def train(self, batches):
        for ids in batches:
            loss = nn.functional.cross_entropy(self.net(ids), ids)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


trainer = Trainer(Tagger(5))
for epoch in range(2):
    trainer.train(torch.randint(0, 6, (3, 4)))
"""

TASKS = """
body = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
opt = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
features = body(torch.randn(5, 3))
outputs = {name: head(features) for name, head in heads.items()}
for name, out in outputs.items():
    loss = out.square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

SQUASHED = """
cell, head = nn.GRUCell(2, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(1, 4)
for x in torch.randn(4, 1, 2):
    out = cell(x, h)
    h = out.tanh()
    loss = head(out).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

# The state is made by the same expression, but once.
SQUASHED_ONCE = SQUASHED.replace("    h = out.tanh()\n", "").replace(
    "h = torch.zeros(1, 4)\n", "h = cell(torch.randn(1, 2), torch.zeros(1, 4)).tanh()\n"
)


def _mended(seen: Seen, folder: Path) -> list[str]:
    """The programs that the offered patches give; every one of them has to run to its end."""
    out = []
    for number, (kind, new) in enumerate(seen.patches()):
        (text,) = new.values()
        again = observe(folder / f"patch{number}", text)
        assert again.result.status == 0, f"{kind}\n{text}\n{again.result.stderr}"
        out.append(text)
    return out


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "cause", "most"),
    [
        (KERNEL, "graph-built-once", 4),
        (RATIO, "stored-with-graph", 4),
        (ENCODED, "stored-with-graph", 4),
        (DATA, "stored-with-graph", 4),
        (SUM, "accumulated-loss", 4),
        (MASK, "graph-built-once", 4),
        (SQUASHED, "carried-state", 4),
    ],
    ids=["kernel", "ratio", "encoded", "data", "sum", "mask", "squashed"],
)
def test_every_way_that_is_offered_ends_the_crash(code: str, cause: str, most: int, tmp_path: Path) -> None:
    """Nothing is detached that is no tensor: a module, a trainer, a dict, None, a sum that has been set to 0.0."""
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.slugs[0] == cause, seen.slugs
    assert 1 <= len(seen.found[0].finding.remedies) <= most
    assert _mended(seen, tmp_path)


def test_attributes_computed_in_init_are_computed_in_forward(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + KERNEL)
    (first, *rest) = _mended(seen, tmp_path)
    width, height = "self.width = torch.exp(self.raw)", "self.height = torch.sigmoid(self.scale)"
    assert (
        f"    def forward(self, x):\n        {width}\n        {height}\n" in first
        and first.count("torch.exp(self.raw)") == 1
    )
    # Nothing else leads to these parameters: to cut would end their training.
    assert not rest and "nothing else" in seen.found[0].finding.explanation
    assert len(set(seen.found[0].finding.facts)) == len(seen.found[0].finding.facts)


def test_a_value_that_the_updates_compare_with_is_data(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + RATIO)
    assert seen.lines("cause") == ['batch["old"] = score(self.net, ids)']
    first = next(iter(seen.patches()[0][1].values()))
    assert 'batch["old"] = score(self.net, ids).detach()' in first
    assert "must be computed" not in seen.found[0].finding.explanation


def test_a_value_through_which_alone_something_learns_is_none(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + OFFSET)
    assert seen.slugs[0] == "graph-built-once"
    finding = seen.found[0].finding
    assert "through nothing else" in finding.explanation
    assert not any("detach" in r.kind or "no_grad" in r.kind for r in finding.remedies)
    assert finding.remedies


def test_where_both_readings_are_open_computing_again_comes_first(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + MASK)
    finding = seen.found[0].finding
    assert "where it is a constant" in finding.explanation and "must be" not in finding.explanation
    kinds = [r.kind for r in finding.remedies]
    assert kinds[0] == "compute_in_method" and "detach_expression" in kinds
    text = next(iter(seen.patches()[0][1].values()))
    assert "self.mask = mask\n" in text and "self.masked = self.embed(torch.tensor([self.mask]))" in text


def test_a_store_that_something_learns_through_is_not_called_data(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + ENCODED)
    finding = seen.found[0].finding
    assert "They are data" not in finding.explanation and "without any gradient" in finding.explanation
    assert finding.remedies[0].safety == "display"
    assert "memory.append(Step(code, torch.randn(1, 2), after))" in seen.lines("cause")
    assert not any("on main" in r.title for r in finding.remedies)


def test_new_entries_of_a_store_are_no_other_way_to_learn(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + EPISODES)
    assert seen.slugs[0] == "stored-with-graph"
    assert "They are data" not in seen.found[0].finding.explanation
    assert seen.found[0].finding.remedies[0].safety == "display"


def test_a_store_of_data_is_detached_where_it_is_filled(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + DATA)
    assert "They are data" in seen.found[0].finding.explanation
    text = next(iter(seen.patches()[0][1].values()))
    assert "memory.append(Step(code.detach(), torch.randn(1, 2), after.detach()))" in text


def test_an_entry_is_detached_where_it_is_put_together(tmp_path: Path) -> None:
    code = DATA.replace(
        "memory.append(Step(code, torch.randn(1, 2), after))",
        "step = Step(code, torch.randn(1, 2), after=after)\n        memory.append(step)",
    )
    seen = observe(tmp_path / "sick", HEAD + code)
    assert "step = Step(code, torch.randn(1, 2), after=after)" in seen.lines("cause")
    text = next(iter(seen.patches()[0][1].values()))
    assert "step = Step(code.detach(), torch.randn(1, 2), after=after.detach())" in text


def test_a_sum_is_not_started_anew_where_it_is_already(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + SUM)
    assert [r.kind for r in seen.found[0].finding.remedies] == ["accumulate_number"]


def test_the_line_of_a_step_in_a_branch_is_the_steps_own(tmp_path: Path) -> None:
    code = SQUASHED.replace("    opt.step()\n", "    if x is not None:\n        opt.step()\n")
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.evidence is not None
    line = (HEAD + code).splitlines().index("        opt.step()") + 1
    title = next(r.title for r in seen.found[0].finding.remedies if r.kind == "detach_after")
    assert title.endswith(f"after the optimizer step at train.py:{line}")


def test_what_a_loop_runs_over_is_not_moved_into_it(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + TASKS)
    for _, new in seen.patches():
        (text,) = new.values()
        assert text.index("outputs = {") < text.index("for name, out in outputs.items()")


def test_a_state_renewed_beside_the_loss_is_carried(tmp_path: Path) -> None:
    carried = observe(tmp_path / "carried", HEAD + SQUASHED)
    assert carried.slugs[0] == "carried-state"
    assert any("h = h.detach()" in t for _, new in carried.patches() for t in new.values())
    once = observe(tmp_path / "once", HEAD + SQUASHED_ONCE)
    assert once.slugs[0] == "graph-built-once"
