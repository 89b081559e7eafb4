"""Remedies that only show in a real run: states in a list of layers, a closure's prediction, a store, an empty loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

LAYERS = """
class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.mem = torch.zeros(3)

    def forward(self, x):
        self.mem = 0.9 * self.mem + torch.tanh(self.fc(x))
        return self.mem


net = nn.Sequential(Leaky(), Leaky())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(3)).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

CLOSURE = """
def fit(net, x):
    opt = torch.optim.LBFGS(net.parameters(), max_iter=4)
    out = net(x)

    def closure():
        opt.zero_grad()
        loss = (out - 1).square().mean()
        loss.backward()
        return loss

    opt.step(closure)


fit(nn.Linear(3, 1), torch.randn(8, 3))
"""

STORE = """
kept = []
net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
for layer in net:
    layer.register_forward_hook(lambda module, args, out: kept.append(out))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    out = net(torch.randn(5, 3))
    loss = (out - torch.stack(kept[-4:]).mean(0)).square().mean() + out.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

EMPTY = """
def box_loss(out, boxes):
    loss = torch.zeros(())
    for o, box in zip(out, boxes):
        if len(box):
            loss = loss + (o - box).abs().sum()
    return loss


net = nn.Linear(3, 2)
for boxes in ([torch.ones(2)], [torch.ones(0)]):
    loss = box_loss(net(torch.randn(1, 3)), boxes)
    loss.backward()
"""


TWO_SUMS = """
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 3):
    total = 0
    for k in range(2):
        total = total + net(x)[:, k].square().mean()
    opt.zero_grad()
    total.backward()
    opt.step()
    for k in range(2):
        total += (net(x)[:, k] - 1).square().mean()
    opt.zero_grad()
    total.backward()
    opt.step()
"""

EMPTY_SUMS = """
class Pull(nn.Module):
    def forward(self, out, boxes):
        pull = push = torch.zeros(())
        count = 0
        for o, box in zip(out, boxes):
            if len(box):
                pull = pull + (o - box).abs().sum()
                count += 1
        return (pull + push) / max(count, 1)


net, criterion = nn.Linear(3, 2), Pull()
for boxes in ([torch.ones(2)], [torch.ones(0)]):
    loss = criterion(net(torch.randn(1, 3)), boxes)
    loss.backward()
"""

BRANCHES = """
def criterion(preds, boxes):
    scores, places = preds
    terms = [(scores - b).abs().mean() for b in torch.ones(2)]
    found = len(boxes)
    if found == 0:
        loss = torch.tensor(0.0)
    else:
        loss = sum(terms)
    return loss


net = nn.Linear(3, 2)
for boxes in ([torch.ones(2)], []):
    out = net(torch.randn(1, 3))
    criterion((out, out + 1), boxes).backward()
"""

PROPERTY = """
from functools import cached_property


class Ring(nn.Module):
    def __init__(self):
        super().__init__()
        self.links = nn.Parameter(torch.randn(3, 3))

    @cached_property
    def mixing(self):
        return self.links.softmax(-1)

    def forward(self, x):
        return x @ self.mixing


net = Ring()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(5, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


PARTS = """
class Part:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def update(self, seen):
        loss = self.value(seen)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


class Main(Part):
    def value(self, seen):
        seen["hard"] = (self.net(seen["x"]) - 1).square().squeeze(1)
        return seen["hard"].mean()


class Judge(Part):
    def value(self, seen):
        return (self.net(seen["x"]).squeeze(1) - seen["hard"]).abs().mean()


parts = [Main(nn.Linear(3, 1)), Judge(nn.Linear(3, 1))]
for step in range(3):
    seen = {"x": torch.randn(5, 3)}
    for part in parts:
        part.update(seen)
"""

SURGERY = """
body = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
heads = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
params = [*body.parameters(), *heads.parameters()]
opt = torch.optim.SGD(params, lr=0.1)
for step in range(3):
    code = body(torch.randn(5, 3))
    each = []
    for head in heads:
        opt.zero_grad()
        head(code).square().mean().backward()
        each.append([None if p.grad is None else p.grad.clone().sign() for p in params])
    for p, one, other in zip(params, *each):
        p.grad = sum(g for g in (one, other) if g is not None)
    opt.step()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("code", "cause", "kind", "lines"),
    [
        (
            LAYERS,
            "carried-state",
            "detach_after",
            ["net[0].mem = net[0].mem.detach()", "net[1].mem = net[1].mem.detach()"],
        ),
        (CLOSURE, "graph-built-once", "move_into_loop", ["    def closure():\n        out = net(x)\n"]),
        (PROPERTY, "graph-built-once", "uncache", ["    @property\n    def mixing"]),
        (EMPTY, "constant-loss", "rewrite", ["    loss = out.sum() * 0.0\n"]),
        (STORE, "stored-with-graph", "detach_after", ["    opt.step()\n    kept = [t.detach() for t in kept]"]),
        (BRANCHES, "constant-loss", "rewrite", ["        loss = sum(terms) * 0.0\n"]),
        (EMPTY_SUMS, "constant-loss", "rewrite", ["    pull = push = out.sum() * 0.0\n"]),
        (PARTS, "undetached-target", "detach_expression", ["""- seen["hard"].detach()).abs()"""]),
        (SURGERY, "shared-subgraph-losses", "set_keyword", [".mean().backward(retain_graph=True)\n"]),
    ],
    ids=["layers", "closure", "property", "empty", "store", "branches", "empty-sums", "parts", "surgery"],
)
def test_a_remedy_mends_what_the_run_showed(code: str, cause: str, kind: str, lines: list[str], tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.slugs[0] == cause
    texts = [text for k, new in seen.patches() if k == kind for text in new.values()]
    fixed = next((t for t in texts if all(line in t for line in lines)), None)
    assert fixed is not None, texts
    mended = observe(tmp_path / "mended", fixed)
    assert mended.mended, mended.slugs


def test_a_sum_over_a_loop_is_not_cut_down_to_its_last_term(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + TWO_SUMS)
    assert seen.slugs[0] == "accumulated-loss"
    patches = seen.patches()
    assert patches[0][0] == "add_statement"
    assert "    opt.step()\n    total = 0\n    for k" in next(iter(patches[0][1].values()))
    assert "accumulate_number" not in [kind for kind, _ in patches]


WINDOW = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
squares = {start}
for i in range(8):
    squares = squares + {term}
    if i % 4 == 3:
        loss = (squares / 8).sqrt().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("start", "term", "anew"),
    [
        ("0", "net(torch.randn(2, 3)).square().sum()", True),
        ("torch.zeros(2, 1)", "net(torch.randn(2, 3)).square()", False),  # a state begins as a tensor
        ("0.0", "net(torch.randn(2, 3) * (1 + 0 * float(squares))).square().sum()", False),  # it is read on the way
    ],
    ids=["sum", "tensor", "read"],
)
def test_a_sum_of_the_rounds_of_one_update_starts_anew_behind_it(
    start: str, term: str, anew: bool, tmp_path: Path
) -> None:
    seen = observe(tmp_path, HEAD + WINDOW.format(start=start, term=term))
    kind, texts = seen.patches()[0]
    assert (kind == "add_statement") is anew
    assert ("        opt.step()\n        squares = 0\n" in next(iter(texts.values()))) is anew


LABELS = """
encoder = nn.Linear(6, 4)
opt = torch.optim.SGD(encoder.parameters(), lr=0.1)
inputs, goal = torch.randn(3, 6), torch.arange(3)
labels = encoder(inputs)
labels = labels / labels.norm(dim=1, keepdim=True)
for _ in range(3):
    loss = nn.functional.cross_entropy(encoder(torch.randn(3, 6)) @ labels.t(), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_constant_that_ends_what_the_first_call_has_trained_is_not_called_proven(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + LABELS)
    assert seen.slugs[0] == "graph-built-once"
    remedies = seen.found[0].finding.remedies
    assert [(r.kind, bool(r.open)) for r in remedies][:1] == [("detach_expression", True)]
    assert ("move_into_loop", False) in [(r.kind, bool(r.open)) for r in remedies]
    assert "`encoder.*` (2 parameters) through `labels`" in remedies[0].open


def test_a_step_goes_behind_a_gradient_that_is_asked_for(tmp_path: Path) -> None:
    slug, name = "optimizer-step-before-backward", "gradient-of-an-attack-behind-the-step.py"
    seen = observe(tmp_path / "sick", (Path(__file__).parent / "examples" / slug / name).read_text())
    assert seen.slugs[0] == slug
    kind, texts = seen.patches()[0]
    (text,) = texts.values()
    assert kind == "move_statement"
    assert "    total += torch.autograd.grad(attack, changes)[0]\n    optimizer.step()\n" in text
    assert observe(tmp_path / "mended", text).mended


def test_of_two_calls_on_one_loss_the_one_without_the_factor_goes_first(tmp_path: Path) -> None:
    example = Path(__file__).parent / "examples" / "repeated-backward" / "loss-divided-by-the-trainer.py"
    seen = observe(tmp_path / "sick", example.read_text())
    assert seen.slugs[0] == "repeated-backward"
    (first, (text,)), (second, _) = ((k, list(t.values())) for k, t in seen.patches())
    assert first == second == "delete_statement"
    assert "loss = exposure + 0.2 * smoothness\n        return loss\n" in text
    assert observe(tmp_path / "mended", text).mended


def test_a_counter_is_not_told_as_the_constant_of_a_loss(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + EMPTY_SUMS)
    assert seen.lines("cause") == ["pull = push = torch.zeros(())", "return (pull + push) / max(count, 1)"]


ONE_LOSS = """
net, critic = nn.Linear(3, 3), nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
c_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(3):
    loss = critic(net(torch.randn(8, 3))).square().mean()
    opt.zero_grad()
    c_opt.zero_grad()
    loss.backward()
    opt.zero_grad()
    ({second}).backward()
    opt.step()
    c_opt.step()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize("second", ["-0.3 * loss", "1.5 / loss", "loss * loss", "loss / loss.sqrt()"])
def test_what_is_more_than_a_share_of_a_loss_is_another_loss(second: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + ONE_LOSS.format(second=second))
    assert seen.slugs[0] == "shared-subgraph-losses"


READ_BETWEEN = """
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for _ in range(3):
    x = torch.randn(8, 3, requires_grad=True)
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
    kept.append({name: value.clone() for name, value in model.state_dict().items()})
    (slope,) = torch.autograd.grad(loss, x)
"""


def test_no_step_is_moved_across_what_reads_the_weights(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + READ_BETWEEN)
    assert seen.slugs[0] == "optimizer-step-before-backward"
    assert "move_statement" not in [r.kind for r in seen.found[0].finding.remedies]


DRAWN_PARAMETER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(3))
        self.scale = {made}

    def forward(self, x):
        return (x * self.scale).sum()


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(4, 3))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ("torch.exp(nn.Parameter(torch.randn(3)))", "self.scale_parameter = nn.Parameter(torch.randn(3))"),
        ("torch.exp(self.raw + torch.rand(3))", "self.scale_drawn = torch.rand(3)"),
        ("self.raw.exp() * (torch.rand(3) if opt is None else 1.0)", ""),
    ],
    ids=["parameter", "drawn", "sometimes"],
)
def test_what_is_made_once_within_an_expression_stays(made: str, kept: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + "opt = 1\n" + DRAWN_PARAMETER.format(made=made))
    texts = [t for kind, new in seen.patches() if kind == "compute_in_method" for t in new.values()]
    assert bool(texts) is bool(kept) and all(f"        {kept}\n" in t for t in texts)


STORED_ONCE = """
body, head = nn.Linear(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
codes = {k: body(torch.randn(3)).tanh() for k in range(3)}
for step in range(3):
    loss = head(torch.stack([codes[k] for k in range(3)]) + body(torch.randn(3, 3))).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_what_was_stored_once_is_not_detached_behind_each_step(tmp_path: Path) -> None:
    """Behind the first step nothing would come through it any more, and the values would stay those of old weights."""
    seen = observe(tmp_path, HEAD + STORED_ONCE)
    assert seen.found
    kinds = [kind for kind, _ in seen.patches()]
    assert kinds and "detach_after" not in kinds


KEPT_UNIT = """
class Match(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        with torch.no_grad():
            {write}
        return x @ self.keys.t()


match = Match()
opt = torch.optim.SGD(match.parameters(), lr=0.1)
for step in range(3):
    left = match(torch.randn(5, 3, requires_grad=True))
    {between}
    loss = (left - match(torch.randn(5, 3))).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
UNIT = "{}.keys.copy_(nn.functional.normalize({}.keys, dim=1))"


def test_a_forward_that_makes_the_write_is_not_run_again_behind_it(tmp_path: Path) -> None:
    itself = KEPT_UNIT.format(write=UNIT.format("self", "self"), between="pass")
    beside = KEPT_UNIT.format(write="pass", between=f"with torch.no_grad(): {UNIT.format('match', 'match')}")
    for name, text in (("itself", itself), ("beside", beside)):
        seen = observe(tmp_path / name, HEAD + text)
        assert seen.slugs[0] == "parameter-overwritten"
        assert ("recompute_after" in [kind for kind, _ in seen.patches()]) is (name == "beside")
