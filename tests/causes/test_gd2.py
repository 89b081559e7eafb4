"""Version errors and in-place refusals: each cause is told from its neighbours, names the write, and offers a cure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from forked import run_forked
from seen import Seen, failing_line, observe


def _first_that_runs(told: Seen, folder: Path) -> str:
    """The kind of the first patch with which the program runs to its end, or to another of its faults at another line.

    Empty where there is none.
    """
    for number, (kind, texts) in enumerate(told.patches()):
        script = folder / f"patched_{number}.py"
        assert list(texts) == ["train.py"]
        script.write_text(texts["train.py"])
        done = run_forked(script)
        if done.status == 0 or failing_line(done.stderr) != failing_line(told.result.stderr):
            return kind
    return ""


# Programs that sit between two causes: what is told, the line, and the first fix with which the program runs (if any).
BETWEEN: dict[str, tuple[str, str, str, str]] = {
    "advantage-behind-a-kept-graph": (
        "retain-graph-cover-up",
        "actor_loss = -(dist.log_prob(act) * adv).mean()",
        "several",
        """\
import torch
from torch import nn
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
a_opt = torch.optim.Adam(actor.parameters())
c_opt = torch.optim.Adam(critic.parameters())
for it in range(3):
    obs, ret = torch.randn(6, 4), torch.randn(6)
    dist = torch.distributions.Categorical(logits=actor(obs))
    act = dist.sample()
    value = critic(obs).squeeze(-1)
    adv = ret - value
    critic_loss = adv.pow(2).mean()
    actor_loss = -(dist.log_prob(act) * adv).mean()
    c_opt.zero_grad()
    critic_loss.backward(retain_graph=True)
    c_opt.step()
    a_opt.zero_grad()
    actor_loss.backward()
    a_opt.step()
""",
    ),
    "anchor-computed-in-init-behind-the-flag": (
        "retain-graph-cover-up",
        "self.anchor = self.embed(torch.full((1,), index))",
        "several",
        """\
import torch
from torch import nn
torch.manual_seed(0)
class Anchored(nn.Module):
    def __init__(self, size, index):
        super().__init__()
        self.embed = nn.Sequential(nn.Embedding(size, 4), nn.LayerNorm(4))
        self.head = nn.Linear(4, 1)
        self.anchor = self.embed(torch.full((1,), index))

    def forward(self, ids):
        return self.head(self.embed(ids) * self.anchor).squeeze(-1)
net = Anchored(7, 6)
opt = torch.optim.AdamW(net.parameters())
for _ in range(4):
    loss = net(torch.randint(0, 6, (5,))).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
""",
    ),
    "columns-scaled-one-by-one": (
        "state-overwritten-in-place",
        "y[:, k] = y[:, k] * self.scale[k] + self.shift[k]",
        "out_of_place",
        """\
import torch
from torch import nn
torch.manual_seed(0)
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid())
        self.scale, self.shift = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))

    def forward(self, x):
        y = self.net(x)
        for k in range(y.size(1)):
            y[:, k] = y[:, k] * self.scale[k] + self.shift[k]
        return y
head = Head()
opt = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(3):
    out = head(torch.randn(5, 3))
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "weights-clipped-in-a-forward-hook": (
        "parameter-overwritten",
        "layer.register_forward_hook(clip)",
        "",
        """\
import torch
from torch import nn
torch.manual_seed(0)

@torch.no_grad()
def clip(module, given, made):
    module.weight.clamp_(-0.2, 0.2)

net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
for layer in (net[0], net[2]):
    layer.register_forward_hook(clip)
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = net(torch.randn(5, 3, requires_grad=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "weight-normalised-inside-the-forward": (
        "parameter-overwritten",
        "self.out.weight.div_(self.out.weight.norm())",
        "clone_parameters",
        """\
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        y = self.out(self.body(x).tanh())
        with torch.no_grad():
            self.out.weight.div_(self.out.weight.norm())
        return y
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(5, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "actor-loss-before-the-critic-step": (
        "optimizer-step-before-backward",
        "self.q_opt.step()",
        "recompute_after",
        """\
import torch
from torch import nn
torch.manual_seed(0)

def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 8), nn.ReLU(), nn.Linear(8, o))

class SAC:
    def __init__(self):
        self.actor, self.q1, self.q2 = mlp(4, 2), mlp(6, 1), mlp(6, 1)
        self.a_opt = torch.optim.Adam(self.actor.parameters())
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()])

    def update(self, obs, act, target):
        sa = torch.cat([obs, act], 1)
        q1, q2 = self.q1(sa), self.q2(sa)
        new = torch.cat([obs, self.actor(obs).tanh()], 1)
        q_new = torch.min(self.q1(new), self.q2(new))
        actor_loss = -q_new.mean()
        critic_loss = (q1 - target).pow(2).mean() + (q2 - target).pow(2).mean()
        self.q_opt.zero_grad()
        critic_loss.backward()
        self.q_opt.step()
        self.a_opt.zero_grad()
        actor_loss.backward()
        self.a_opt.step()

agent = SAC()
for _ in range(3):
    agent.update(torch.randn(5, 4), torch.randn(5, 2), torch.randn(5, 1))
""",
    ),
    "rows-of-a-preallocated-tensor": (
        "state-overwritten-in-place",
        "xs[t] = torch.tanh(self.f(xs[t - 1]))",
        "out_of_place",
        """\
import torch
from torch import nn
torch.manual_seed(0)

class Roll(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x0, steps):
        xs = torch.zeros(steps, *x0.shape)
        xs[0] = x0
        for t in range(1, steps):
            xs[t] = torch.tanh(self.f(xs[t - 1]))
        return xs

m = Roll()
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(2):
    loss = m(torch.randn(4, 3), 6).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "residual-added-to-an-argument": (
        "inplace-on-saved-activation",
        "x += b(x)",
        "out_of_place",
        """\
import torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for b in self.blocks:
            x += b(x)
        return self.out(x)

m = Net()
opt = torch.optim.SGD(m.parameters(), lr=0.1)
inp = nn.Linear(2, 4)
for _ in range(2):
    loss = m(inp(torch.randn(5, 2)).sigmoid()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "mask-after-softmax": (
        "inplace-on-saved-activation",
        "w.masked_fill_(mask, 0.0)",
        "out_of_place",
        """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)

class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, mask):
        w = (self.q(x) @ self.k(x).transpose(-1, -2)).softmax(-1)
        w.masked_fill_(mask, 0.0)
        return w @ self.v(x)

m = Attention(4)
opt = torch.optim.AdamW(m.parameters())
for _ in range(2):
    loss = m(torch.randn(2, 5, 4), torch.rand(2, 5, 5) < 0.3).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "teacher-moved-before-backward": (
        "parameter-overwritten",
        "t.lerp_(s, 1 - m)",
        "detach_between",
        """\
import copy
import torch
from torch import nn
torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
teacher = copy.deepcopy(student)
opt = torch.optim.Adam(student.parameters())

@torch.no_grad()
def update_teacher(m=0.9):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.lerp_(s, 1 - m)

for _ in range(3):
    x = torch.randn(6, 4)
    with torch.no_grad():
        pass
    p = teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
    logq = student(x).log_softmax(-1)
    loss = -(p * logq).sum(-1).mean()
    update_teacher()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "weights-clamped-before-backward": (
        "parameter-overwritten",
        "p.clamp_(-0.05, 0.05)",
        "move_statement",
        """\
import torch
from torch import nn
torch.manual_seed(0)
g = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
c = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
og, oc = torch.optim.RMSprop(g.parameters()), torch.optim.RMSprop(c.parameters())
for _ in range(3):
    fake = g(torch.randn(5, 2))
    loss_c = c(fake.detach()).mean() - c(torch.randn(5, 3)).mean()
    with torch.no_grad():
        for p in c.parameters():
            p.clamp_(-0.05, 0.05)
    oc.zero_grad()
    loss_c.backward()
    oc.step()
    loss_g = -c(fake).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
""",
    ),
    "embedding-renormalised-by-a-lookup": (
        "parameter-overwritten",
        "neg = emb(torch.randint(0, 10, (5,)))",
        "clone_expression",
        """\
import torch
from torch import nn
torch.manual_seed(0)
emb = nn.Embedding(10, 4, max_norm=1.0)
head = nn.Linear(4, 4)
opt = torch.optim.SGD([*emb.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    a = torch.randint(0, 10, (5,))
    scores = head(emb(a)) @ emb.weight.t()
    neg = emb(torch.randint(0, 10, (5,)))
    loss = scores.logsumexp(-1).mean() + neg.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "state-masked-in-place": (
        "state-overwritten-in-place",
        "self.h *= (1 - done).unsqueeze(-1)",
        "out_of_place",
        """\
import torch
from torch import nn
torch.manual_seed(0)

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.head = nn.Linear(4, 1)
        self.h = None

    def forward(self, x, done):
        if self.h is None:
            self.h = torch.zeros(len(x), 4)
        self.h = self.cell(x, self.h)
        out = self.head(self.h)
        self.h *= (1 - done).unsqueeze(-1)
        return out

p = Policy()
opt = torch.optim.Adam(p.parameters())
for _ in range(3):
    p.h = None
    loss = sum(p(torch.randn(2, 3), (torch.rand(2) < 0.3).float()).pow(2).mean() for _ in range(4))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "update-by-hand": (
        "inplace-on-leaf",
        "w -= 0.1 * w.grad",
        "under_no_grad_update",
        """\
import torch
w = torch.randn(3, requires_grad=True)
x, y = torch.randn(8, 3), torch.randn(8)
for _ in range(3):
    loss = (x @ w - y).pow(2).mean()
    loss.backward()
    w -= 0.1 * w.grad
    w.grad = None
""",
    ),
    "gate-of-a-chunk": (
        "inplace-on-view",
        "gate.sigmoid_()",
        "out_of_place",
        """\
import torch
from torch import nn
torch.manual_seed(0)
lin = nn.Linear(3, 8)
opt = torch.optim.SGD(lin.parameters(), lr=0.1)
for _ in range(2):
    gate, value = lin(torch.randn(5, 3)).chunk(2, dim=-1)
    gate.sigmoid_()
    loss = (gate * value).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "table-cached-in-inference-mode": (
        "inplace-on-inference-tensor",
        "with torch.inference_mode():",
        "swap_switch",
        """\
import torch
from torch import nn
torch.manual_seed(0)

class Rot(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.cos = None

    def table(self, n):
        if self.cos is None:
            self.cos = torch.cos(torch.arange(n * 4.0)).view(n, 4)
        return self.cos

    def forward(self, x):
        return self.lin(x) * self.table(x.shape[1])

m = Rot()
opt = torch.optim.SGD(m.parameters(), lr=0.1)

def evaluate():
    with torch.inference_mode():
        return m(torch.randn(2, 5, 4)).mean().item()

print(evaluate() is not None)
for _ in range(2):
    loss = m(torch.randn(2, 5, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "lstm-state-behind-the-flag": (
        "retain-graph-cover-up",
        "self.state = self.cell(x, self.state)",
        "several",
        """\
import torch
from torch import nn
torch.manual_seed(0)
class Tracker:
    def __init__(self):
        self.cell, self.head = nn.LSTMCell(3, 6), nn.Linear(6, 1)
        self.opt = torch.optim.Adam([*self.cell.parameters(), *self.head.parameters()])
        self.state = (torch.zeros(2, 6), torch.zeros(2, 6))
    def step(self, x):
        self.state = self.cell(x, self.state)
        loss = self.head(self.state[0]).pow(2).mean()
        self.opt.zero_grad()
        loss.backward(retain_graph=True)
        self.opt.step()
t = Tracker()
for _ in range(4):
    t.step(torch.randn(2, 3))
""",
    ),
}


def named(test: Callable[..., None]) -> Callable[..., None]:
    """Of each of these programs; golden reports have each cause at every save."""
    return pytest.mark.breadth(3)(pytest.mark.parametrize("name", BETWEEN)(test))


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory):
    known: dict[str, Seen] = {}

    def once(name: str) -> Seen:
        if name not in known:
            known[name] = observe(tmp_path_factory.mktemp("between"), BETWEEN[name][3])
        return known[name]

    return once


@named
def test_neighbours_are_told_apart(between, name: str) -> None:
    slug, line, _, _ = BETWEEN[name]
    told = between(name)
    assert told.slugs[:1] == [slug]
    assert line in told.lines("cause")
    assert len([s for s in told.found[0].finding.spans if s.role == "cause"]) <= 3


@named
def test_the_first_fix_that_runs(between, name: str, tmp_path: Path) -> None:
    assert _first_that_runs(between(name), tmp_path) == BETWEEN[name][2]


@named
def test_the_write_is_among_the_places(between, name: str) -> None:
    if BETWEEN[name][0] != "inplace-on-inference-tensor":  # there nothing need be written
        assert between(name).lines("mutated")


def test_versions_and_writer_are_facts(between) -> None:
    told = between("actor-loss-before-the-critic-step").found[0].finding
    assert "agent.q2.2.weight at version 2, 1 expected: +1 by Adam.step() at train.py:23" in told.facts
    assert told.confidence == "certain"


def test_every_patch_of_a_tensor_overwritten_for_two_savers_runs_and_names_it_once(between, tmp_path: Path) -> None:
    # Mul saved its slices, Sigmoid its result: a clone for one of them alone lets the other fail.
    told = between("columns-scaled-one-by-one")
    assert len(told.patches()) == 3
    for number, (_, texts) in enumerate(told.patches()):
        script = tmp_path / f"patched_{number}.py"
        script.write_text(texts["train.py"])
        assert run_forked(script).status == 0
    finding = told.found[0].finding
    assert any("saves `y` for backward" in s.label for s in finding.spans)
    assert not any("`out`" in s.label.split() for s in finding.spans) and finding.facts[0].startswith("y at version")


def test_a_place_is_labelled_once(between) -> None:
    spans = between("weights-clipped-in-a-forward-hook").found[0].finding.spans
    at = [(s.line, s.column, s.end_line, s.end_column) for s in spans if s.label]
    assert len(set(at)) == len(at)
    assert "inside the forward" in between("weights-clipped-in-a-forward-hook").found[0].finding.explanation


def test_a_write_that_was_not_counted_is_not_certain(between) -> None:
    finding = between("residual-added-to-an-argument").found[0].finding
    # Before torch 2.10 one run does not tell all writers, and the second one has counted each write by its function.
    assert finding.confidence == ("certain" if "by `add_()`" in finding.because else "likely")


def test_keeping_the_flag_comes_after_dropping_it(between) -> None:
    kinds = [texts["train.py"] for _, texts in between("lstm-state-behind-the-flag").patches()]
    assert "retain_graph" not in kinds[0]


@named
def test_what_the_flag_covers_is_told_once_and_never_kept_on_clones(between, name: str) -> None:
    told = between(name)
    if BETWEEN[name][0] != "retain-graph-cover-up":
        assert not any(f.finding.covers for f in told.found)
        return
    assert not {"carried-state", "graph-built-once", "stored-with-graph", "undetached-target"} & set(told.slugs)
    assert told.found[0].finding.remedies
    for remedy in told.found[0].finding.remedies:
        assert "clone_parameters" not in {remedy.kind, *(e["kind"] for e in remedy.args.get("edits", ()))}


def test_a_call_that_saves_and_writes_below_itself_gets_no_clone_of_its_result(tmp_path: Path) -> None:
    net = "nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Hardtanh(inplace=True))"
    head = f"import torch\nfrom torch import nn\nnet = {net}\n"
    told = observe(tmp_path, head + "net(torch.ones(1, 4)).sum().backward()\n")
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert [r.title for r in told.found[0].finding.remedies if "clone the result" in r.title] == []


ENTRY = """
import torch
KEY = object()
w = torch.ones(2, requires_grad=True)
state = {{KEY: torch.zeros(1, requires_grad=True), 1: torch.ones(3, requires_grad=True)}}
table = torch.zeros(3, requires_grad=True)
def add(state, v):
    {line}
add({given}, (w * 2).sum())
"""


@pytest.mark.parametrize(
    ("line", "given", "named"),
    [
        ("state[KEY] += v", "state", "`state[KEY]` is a leaf"),
        ("state[torch.tensor([0, 2])] += v", "table", "`state` is a leaf"),
    ],
)
def test_an_entry_that_is_added_to_is_named_and_no_part_of_a_tensor(
    tmp_path: Path, line: str, given: str, named: str
) -> None:
    seen = observe(tmp_path, ENTRY.format(line=line, given=given))
    assert seen.slugs[0] == "inplace-on-leaf", seen.said
    assert named in seen.found[0].finding.title


SCALED = """
import torch
from torch import nn
def score(x, scale):
    x /= scale
    return x.square().mean()
image = nn.Parameter(torch.rand(3, 4))
optimizer = torch.optim.SGD([image], 0.1)
for _ in range(2):
    loss = score(image, 255.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_function_computes_on_with_is_no_update(tmp_path: Path) -> None:
    seen = observe(tmp_path, SCALED)
    assert seen.slugs[0] == "inplace-on-leaf", seen.said
    assert seen.found[0].finding.remedies[0].kind == "out_of_place"
