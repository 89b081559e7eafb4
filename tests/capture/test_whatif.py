"""Gradient against loss: what is measured in forks, what is left alone, and that the program does not notice."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from observed import run, script

from graphdoc.capture.whatif.answers import Answers
from graphdoc.capture.whatif.cut_places import Dying
from graphdoc.capture.whatif.measure import _jumps
from graphdoc.capture.whatif.questions import LeftOut
from graphdoc.diagnose import findings_for
from graphdoc.evidence import GRADIENTS, RECOMPUTED, Evidence
from graphdoc.story.gradients import gradients

NET = """
from torch import nn
enc, head = nn.Linear(8, 6), nn.Linear(6, 1)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(32, 8)
y = 2 * x[:, :1]
"""
ROUND = """
for _ in range(8):
    LINES
    loss = ((head(z) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def program(lines: str, before: str = "") -> str:
    """One network, with these lines between its encoder and its head."""
    body = textwrap.indent(textwrap.dedent(lines).strip(), "    ").strip()
    return NET + textwrap.dedent(before) + ROUND.replace("LINES", body)


def measured(folder: Path, source: str) -> Evidence:
    found = run(script(folder, source), mode="probe:whatif:all")
    assert not found.troubles, found.troubles
    assert found.result.status == 0, found.result.stderr
    return found.only


def looks(evidence: Evidence) -> list[dict[str, Any]]:
    """What was measured, step by step."""
    return [look for sign in evidence.signs for look in sign.facts.get("looks", ())]


def answers(evidence: Evidence) -> dict[str, str]:
    """The last answer for each parameter."""
    out: dict[str, str] = {}
    for sign in evidence.signs:
        for look in sign.facts.get("looks", ()) if sign.kind == GRADIENTS else ():
            assert not look["why"], look["why"]
            for answer in look["answers"]:
                out.update(dict.fromkeys(answer["parameters"], answer["answer"]))
    return out


def told(evidence: Evidence) -> list[str]:
    """The causes that a report tells without ``--audit all``."""
    return [f.cause.slug for f in findings_for(evidence)[0] if f.finding.confidence != "possible"]


CUTS: dict[str, tuple[str, str, str]] = {
    "a list": ("z = torch.tensor(enc(x).tolist())", "", "cut-by-conversion"),
    "a detach": ("z = enc(x).detach()", "", "cut-by-detach"),
    "a hook": (
        "enc(x)\nz = kept['z'].tanh()",
        "kept = {}\nenc.register_forward_hook(lambda m, i, o: kept.__setitem__('z', o.clone().detach()))",
        "cut-by-detach",
    ),
    "data": ("z = enc(x).data.tanh()", "", "cut-by-detach"),
    "numbers": (
        "z = torch.stack([x[:, i] * float(enc.bias[i]) * float(enc.weight.sum()) for i in range(6)], 1)",
        "",
        "cut-by-conversion",
    ),
    "a decision": ("z = nn.functional.one_hot(enc(x).argmax(1), 6).float()", "", "nondifferentiable-op"),
    "a round": ("z = (enc(x) * 8).round() / 8", "", "nondifferentiable-op"),
    "a round beside a sparse gradient": (
        "z = (enc(x) * 8).round() / 8 + table(torch.arange(32) % 5)",
        "table = nn.Embedding(5, 6, sparse=True)",
        "nondifferentiable-op",
    ),
    "a cancelling sum": (
        "a = enc(x)\nz = a + ((a * 4).round() / 4 - a)",
        "",
        "straight-through-cancels",
    ),
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", CUTS)
def test_what_a_loss_depends_on_and_gives_nothing_to_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    lines, before, slug = CUTS[name]
    evidence = measured(tmp_path, program(lines, before))
    seen = answers(evidence)
    assert seen["enc.weight"] in ("missing", "zero") and seen["head.weight"] == "agrees"
    assert told(evidence)[:1] == [slug]
    if name == "a decision":
        given = [a for look in looks(evidence) for a in look["answers"]]
        assert any(a["jumps"] for a in given if "enc.weight" in a["parameters"])
        assert not any(a["jumps"] for a in given if "head.weight" in a["parameters"])
        assert "only in jumps" in findings_for(evidence)[0][0].finding.because


MEANT = {
    "straight through": program("a = enc(x)\nz = a + ((a * 4).round() / 4 - a).detach()"),
    "its own values as target": NET
    + """
for _ in range(8):
    z = enc(x)
    loss = ((head(z) - y - 0.9 * head(z + 1).detach()) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(head.parameters(), 0.01)
    opt.step()
""",
    "an advantage": """
from torch import nn
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pi, self.v = nn.Linear(4, 16), nn.Linear(16, 3), nn.Linear(16, 1)
    def forward(self, s):
        h = torch.tanh(self.body(s))
        return self.pi(h), self.v(h).squeeze(1)
net = Both()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(8):
    logits, v = net(torch.randn(64, 4))
    d = torch.distributions.Categorical(logits=logits)
    a = d.sample()
    r = (a == 1).float()
    loss = (v - r).pow(2).mean() - (d.log_prob(a) * (r - v.detach())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "two networks against each other": """
from torch import nn
g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 1))
og, od = torch.optim.Adam(g.parameters(), lr=1e-3), torch.optim.Adam(d.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(8):
    fake = g(torch.randn(32, 4))
    od.zero_grad()
    (bce(d(torch.randn(32, 2) + 2), torch.ones(32, 1)) + bce(d(fake.detach()), torch.zeros(32, 1))).backward()
    od.step()
    og.zero_grad()
    bce(d(fake), torch.ones(32, 1)).backward()
    og.step()
""",
    "a first order inner step": """
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(10, 3)
    y = x.sum(1, keepdim=True)
    inner = torch.autograd.grad((net(x) - y).pow(2).mean(), list(net.parameters()))
    w, b = (p - 0.1 * g for p, g in zip(net.parameters(), inner))
    opt.zero_grad()
    (x @ w.t() + b - y).pow(2).mean().backward()
    opt.step()
""",
    "a closure": """
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=5)
x = torch.randn(20, 3)
def closure():
    opt.zero_grad()
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    return loss
for _ in range(6):
    opt.step(closure)
""",
    "dropout, and several calls in a step": """
from torch import nn
net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 3))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(6):
    opt.zero_grad()
    for _ in range(3):
        (nn.functional.cross_entropy(net(torch.randn(16, 8)), torch.randint(0, 3, (16,))) / 3).backward()
    opt.step()
""",
}


RUNS = {"dropout, and several calls in a step": 3, "an advantage": 3}
"""How many times more a step is run, at most, that agrees."""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", MEANT)
def test_what_an_author_cuts_is_no_difference(tmp_path: Path, name: str) -> None:
    evidence = measured(tmp_path, MEANT[name])
    assert set(answers(evidence).values()) == {"agrees"}
    assert not told(evidence)
    assert name not in RUNS or all(look["cost"][0] <= RUNS[name] for look in looks(evidence))


RESTS = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.unused = nn.Linear(8, 6), nn.Linear(6, 1), nn.Linear(2, 2)
    def forward(self, x):
        FORWARD
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(32, 8)
for _ in range(8):
    loss = (net(x) - x[:, :1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "forward",
    ["return self.head(self.body(x).detach())", "with torch.no_grad(): h = self.body(x)\n        return self.head(h)"],
)
def test_a_part_that_is_left_as_it_is_is_the_authors_word(tmp_path: Path, forward: str) -> None:
    evidence = measured(tmp_path, RESTS.replace("FORWARD", forward))
    seen = answers(evidence)
    assert seen["net.body.weight"] == "missing" and not told(evidence)
    assert [f.finding.confidence for f in findings_for(evidence)[0]] == ["possible"]
    assert any("depends on `net.body.*`" in line and "cuts it off" in line for line in gradients(evidence))


FUNCTIONS = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3
    @staticmethod
    def backward(ctx, g):
        return SIGN * 3 * ctx.saved_tensors[0] ** 2 * g
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -2 * g
class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x > 0).float()
    @staticmethod
    def backward(ctx, g):
        return g
cube = Cube.apply
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_function_with_a_wrong_backward_is_named(tmp_path: Path, sign: str) -> None:
    lines = "a = enc(x)\nz = cube(a) + Reversed.apply(a) + Spike.apply(a)"
    evidence = measured(tmp_path, program(lines, FUNCTIONS.replace("SIGN *", f"{sign}1 *")))
    assert answers(evidence)["enc.weight"] == "another"
    said = " ".join(gradients(evidence))
    assert ("the backward of `Cube`" in said) == (sign == "-")
    assert told(evidence) == (["custom-function-bad-gradient"] if sign else [])
    assert "`Reversed`" not in said and "`Spike`" not in said


RUN_AGAIN = [
    ("(out * random.uniform(0.2, 3.0)).tanh()", False, True),
    ("(out * random.uniform(0.2, 3.0)).tanh()", True, True),
    ("torch.nn.functional.dropout(out, 0.4)", False, False),
    ("out + (out.round() - out).detach()", False, False),
    ("out.detach() * out", True, False),
]


@pytest.mark.parametrize(("result", "reentrant", "other"), RUN_AGAIN)
def test_a_checkpoint_that_runs_something_else_the_second_time(
    tmp_path: Path, result: str, reentrant: bool, other: bool
) -> None:
    """What PyTorch does not compare, or finds alike, gives another gradient. Not so what is drawn by torch, and what an
    author has cut within."""
    lines = f"z = checkpoint(block, start(x), use_reentrant={reentrant})"
    before = f"""
        import random
        from torch.utils.checkpoint import checkpoint
        random.seed(0)
        start = nn.Linear(8, 8)
        opt = torch.optim.SGD([*start.parameters(), *enc.parameters(), *head.parameters()], lr=1e-2)
        def block(x):
            out = enc(x).tanh()
            return {result}
    """
    found = measured(tmp_path, program(lines, before))
    assert [s.kind for s in found.signs if s.kind == RECOMPUTED] == [RECOMPUTED] * other
    assert ("checkpoint-mismatch" in told(found)) is other
    assert "checkpoint-no-grad-input" not in told(found)


TWO = """
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x), torch.cos(3 * x)
    @staticmethod
    def backward(ctx, g, other):
        x, = ctx.saved_tensors
        return g * (1 - torch.tanh(x) ** 2)REST
from torch import nn
enc, head = nn.Linear(8, 6), nn.Linear(6, 1)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(32, 8)
y = 2 * x[:, :1]
for _ in range(10):
    z, bumps = Both.apply(enc(x))
    loss = ((head(z) - y) ** 2).mean() TERM
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
RIGHT = " - 3 * torch.sin(3 * x) * other"
ANGLES = [
    pytest.param("", "+ 0.3 * bumps.mean()", True, id="a term that is not there"),
    pytest.param(RIGHT, "+ 0.3 * bumps.mean()", False, id="a right one"),
    pytest.param("", "", False, id="a result that no loss takes"),
    pytest.param("", "* (2 + bumps.detach().mean())", False, id="a result that is detached"),
]


@pytest.mark.breadth(2)
@pytest.mark.parametrize(("rest", "term", "lacks"), ANGLES)
def test_a_term_that_a_gradient_lacks_shows_across_it(tmp_path: Path, rest: str, term: str, lacks: bool) -> None:
    """Along the gradient a term at a right angle to it is nothing."""
    evidence = measured(tmp_path, TWO.replace("REST", rest).replace("TERM", term))
    every = [a for look in looks(evidence) for a in look["answers"]]
    assert {a["answer"] for a in every} == {"another" if lacks else "agrees"}
    assert all(a["across"] == lacks for a in every) and all(look["cost"][0] <= 6 for look in looks(evidence))
    assert told(evidence) == (["custom-function-bad-gradient"] if lacks else [])
    assert any("across the one that is given" in line for line in gradients(evidence)) == lacks


CUBE = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x**3
    @staticmethod
    def backward(ctx, g):
        pass
"""
NO_FORK = "import signal\nsignal.signal(signal.SIGCHLD, lambda *_: None)\n"
SLEEPS = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
ANSWERS = """
import queue, threading
asked, answered = queue.Queue(), queue.Queue()

def answer():
    while True:
        answered.put(2 * asked.get())

threading.Thread(target=answer, daemon=True).start()
"""


@pytest.mark.slow
def test_a_function_that_returns_nothing_is_where_the_gradient_ends(tmp_path: Path) -> None:
    evidence = measured(tmp_path, program("z = Cube.apply(enc(x))", CUBE))
    assert any("it ends at `CubeBackward`" in line for line in gradients(evidence))


@pytest.mark.breadth(1)
@pytest.mark.parametrize("other", ["", " + enc(x)", " + head.bias"])
def test_without_a_fork_the_end_of_a_gradient_is_seen_in_the_run_itself(tmp_path: Path, other: str) -> None:
    """``other``: another way to the same parameters, by which they learn; or to different ones."""
    evidence = measured(tmp_path, program(f"z = Cube.apply(enc(x)){other}", CUBE + NO_FORK))
    signs = [s for s in evidence.signs if s.kind == "unreturned"]
    assert [s.parameters for s in signs] == ([] if "enc" in other else [["enc.bias", "enc.weight"]])
    assert not signs or any(f.user for f in signs[0].stack)


NOTICED = """
import os, random, sys
random.seed(3)
from torch import nn
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
lines = open(__file__)
for _ in range(8):
    x = torch.randn(8, 4) + random.random()
    line = lines.readline()
    loss = net(nn.functional.dropout(x)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item(), line, end="")
    sys.stderr.write(str(os.getpid() > 0))
    sys.stdout.flush()
lines.close()
"""


def test_the_program_does_not_notice(tmp_path: Path) -> None:
    path = script(tmp_path, NOTICED)
    plain, looked = run(path, mode="").result, run(path, mode="probe:whatif:all").result
    assert (plain.stdout, plain.stderr, plain.status) == (looked.stdout, looked.stderr, looked.status)


WHY: dict[str, tuple[str, str]] = {
    "a file": ("open('log.txt', 'a').write('step')", "writes a file"),
    "another process": ("import subprocess; subprocess.run(['true'])", "reaches out of its process"),
    "chance": (
        "x = x + float(torch.rand(1, generator=torch.Generator().manual_seed(time.time_ns() % 2**31)))",
        "another loss",
    ),
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", WHY)
def test_a_step_that_cannot_be_repeated_is_not_measured(tmp_path: Path, name: str) -> None:
    lines, why = WHY[name]
    evidence = measured(tmp_path, program(f"{lines}\nz = enc(x).detach()", "import time"))
    assert looks(evidence) and all(why in look["why"] for look in looks(evidence)), looks(evidence)
    (cut,) = [s for s in evidence.signs if s.kind == "cut-off"]
    assert "measured" not in cut.facts  # what was recorded is told all the same


CLIPPED = """
from torch import nn
maker, critic = nn.Linear(2, 3), nn.Linear(3, 1)
first = torch.optim.SGD(critic.parameters(), lr=0.05)
second = torch.optim.SGD(maker.parameters(), lr=0.01)
nn.init.constant_(critic.bias, -0.01)
for _ in range(8):
    apart = critic(maker(torch.randn(16, 2)).detach()).mean() - critic(torch.randn(16, 3) + 1).mean()
    first.zero_grad()
    apart.backward()
    critic.bias.grad = None
    first.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.01, 0.01)
    loss = -critic(maker(torch.randn(16, 2))).mean()
    second.zero_grad()
    loss.backward()
    second.step()
"""


@pytest.mark.slow
def test_a_parameter_at_the_bound_that_it_is_clipped_to_is_not_moved(tmp_path: Path) -> None:
    """A move would be clipped away: that the loss does not follow it says nothing of the gradient."""
    evidence = measured(tmp_path, CLIPPED)
    given = [a["answer"] for look in looks(evidence) for a in look["answers"]]
    assert "agrees" in given and "another" not in given, looks(evidence)


PADDED = """
table = nn.Embedding(6, 6, padding_idx=0)
nn.init.normal_(table.weight)
words = torch.arange(32 * 5).reshape(32, 5) % 6
"""


def test_the_padding_of_an_embedding_is_not_moved(tmp_path: Path) -> None:
    """A loss depends on that row, and autograd gives it nothing on purpose."""
    lines = "z = enc(x) + 3 * table(words).mean(1).tanh()"
    rounds = ROUND.replace("LINES", lines).replace(
        "for _", "opt.add_param_group({'params': table.parameters()})\nfor _"
    )
    assert set(answers(measured(tmp_path, NET + PADDED + rounds)).values()) == {"agrees"}


OWN = """
from torch import nn
net = nn.Linear(8, 1)
class Copies:
    def __init__(self, model):
        self.model, self.main = model, [p.detach().clone().requires_grad_() for p in model]
        self.inner = torch.optim.Adam(self.main, lr=1e-2)
    def step(self):
        for p, main in zip(self.model, self.main):
            main.grad = GIVEN
        self.inner.step()
        with torch.no_grad():
            for p, main in zip(self.model, self.main):
                p.copy_(main)
opt = Copies([*net.parameters()])
x = torch.randn(32, 8)
for _ in range(8):
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("given", ["p.grad.clone()", "None"])
def test_a_gradient_that_an_optimizer_writes_by_itself_is_not_called_missing(tmp_path: Path, given: str) -> None:
    found = looks(measured(tmp_path, OWN.replace("GIVEN", given)))
    told = {a["answer"] for look in found for a in look["answers"]}
    assert ("missing" in told) is (given == "None"), found


def test_a_thread_that_sleeps_is_no_reason(tmp_path: Path) -> None:
    evidence = measured(tmp_path, program("z = enc(x)", SLEEPS))
    assert set(answers(evidence).values()) == {"agrees"}, gradients(evidence)


def test_a_thread_that_the_step_waits_for_is_a_reason(tmp_path: Path) -> None:
    evidence = measured(tmp_path, program("asked.put(x)\nz = enc(answered.get())", ANSWERS))
    assert any("waits for another thread" in line for line in gradients(evidence)), gradients(evidence)


INNER = """
from torch import nn
net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
names = [name for name, _ in net.named_parameters()]
wave = lambda: (torch.rand(10, 1) * 10 - 5, torch.rand(1) * 4.9 + 0.1, torch.rand(1) * 3.1)
for _ in range(7):
    total = 0
    for _ in range(4):
        x, high, phase = wave()
        loss = ((net(x) - high * torch.sin(x - phase)) ** 2).mean()
        grads = torch.autograd.grad(loss, list(net.parameters()), create_graph=True)
        inner = {n: p - RATE * g for n, p, g in zip(names, net.parameters(), grads)}
        x = torch.rand(10, 1) * 10 - 5
        total = total + ((torch.func.functional_call(net, inner, (x,)) - high * torch.sin(x - phase)) ** 2).mean()
    opt.zero_grad()
    total.backward()
    opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("rate", ["0.01", "0.1"])
def test_a_loss_that_jumps_has_no_other_gradient(tmp_path: Path, rate: str) -> None:
    """A step along the gradient of a ReLU network jumps where a unit is switched, which no gradient knows."""
    assert "another" not in answers(measured(tmp_path, INNER.replace("RATE", rate))).values()


JUMPING = [
    pytest.param(1.1, True, False, False, id="jumps"),
    pytest.param(1.1, False, False, True, id="no gradient in the loss"),
    pytest.param(1.1, True, True, True, id="a Function of the program's"),
    pytest.param(-1.0, True, False, True, id="another sign"),
    pytest.param(3.0, True, False, True, id="far away"),
]


@pytest.mark.parametrize(("slope", "second", "own", "still"), JUMPING)
def test_many_jumps_are_a_slope_that_no_gradient_knows(slope: float, second: bool, own: bool, still: bool) -> None:
    """``second``: the loss is computed from a gradient; ``own``: the program has a Function or a hook."""
    look: dict[str, Any] = {"own": own, "answers": [{"answer": "another", "line": 4, "slope": slope, "gradient": 1.0}]}
    Answers.doubt_jumps(look, [{"line": 4, "second": second}])
    assert (look["answers"][0]["answer"] == "another") == still


def test_a_result_is_not_read_where_a_tensor_before_it_had_its_id() -> None:
    """A tensor that ends gives its id to the next one that is made."""
    leaf = torch.ones(2, requires_grad=True)
    with LeftOut(cast(Any, SimpleNamespace(parameters=[leaf])), {0}) as look:
        for _ in range(4):
            torch.ones(2).neg()
            leaf.mul(2.0)
    assert len(look.told()[1]) == 4


@pytest.mark.parametrize(("apart", "position"), [(0.0, 0), (0.5, 1)], ids=["one function", "a shift of both"])
def test_a_shift_that_both_sides_have_is_not_lost(apart: float, position: int) -> None:
    """Both sides of a difference cancel where they are one function, and not where a weight tells them apart."""
    torch.manual_seed(0)
    first = torch.nn.Linear(2, 3)
    torch.nn.init.constant_(first.bias, 4.0)
    critic = torch.nn.Sequential(first, torch.nn.LeakyReLU(), torch.nn.Linear(3, 1))
    x = torch.rand(5, 2)
    watch = Dying(cast(Any, SimpleNamespace(parameters=[*critic.parameters()])), {position})
    loss = (critic(x + apart) - critic(x)).mean()
    watch.began([loss])
    loss.backward()
    assert first.bias.grad is not None and not first.bias.grad.any()
    assert [e.get("equal") for e in watch.told()["ends"]] == ([] if apart else [True])


ONE = 1e-7
"""The rounding of a loss near one."""


@pytest.mark.parametrize(
    ("loss", "jumps"),
    [
        pytest.param(lambda h: 1e-4 * h, False, id="a-slope-that-little-steps-round-away"),
        pytest.param(lambda h: 1e-4 * h + 1e-2 * h * h, False, id="curved"),
        pytest.param(lambda h: 1e-3 * min(h, 0.3), False, id="bounded"),
        pytest.param(lambda h: 1e-3 * (h >= 1e-2), True, id="flat-up-to-a-jump"),
        pytest.param(lambda h: 1e-4, True, id="jumps-at-once"),
        pytest.param(lambda h: 1e-4 * (h >= 1.0), True, id="a-whole-number"),
        pytest.param(lambda h: 0.0, False, id="flat"),
    ],
)
def test_what_little_steps_round_away_is_no_jump(loss: Callable[[float], float], jumps: bool) -> None:
    def seen(step: float) -> list[tuple[float, float, float]]:
        slope = round(loss(step) / ONE) * ONE / step
        return [(slope, ONE / step, slope)]

    assert _jumps({step: seen(step) for step in (1e-2, 3e-3, 1e-3, 3e-2, 1e-1, 1.0)}, 0) == jumps


JUDGED = """
from torch import nn
maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
by_maker = torch.optim.SGD(maker.parameters(), lr=1e-2)
by_judge = torch.optim.SGD(judge.parameters(), lr=1e-2)
for _ in range(9):
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    by_maker.zero_grad()
    judge(maker(x)).square().mean().backward()
    by_maker.step()
    by_judge.zero_grad()
    (FITTED - y).square().mean().backward()
    by_judge.step()
"""


@pytest.mark.parametrize(
    ("fitted", "clear", "expected"),
    [
        ("judge(x)", "by_judge.zero_grad()", {("agrees", "fits")}),
        ("judge(x)", "pass", {("agrees", "fits"), ("agrees", "makes")}),
        ("judge(x).detach() * weight", "by_judge.zero_grad()", {("missing", "fits")}),
        ("judge(x).detach() * weight", "by_judge.zero_grad(set_to_none=False)", {("missing", "fits")}),
    ],
)
def test_what_is_cleared_before_the_step_is_none_of_its_gradients(
    tmp_path: Path, fitted: str, clear: str, expected: set[tuple[str, str]]
) -> None:
    weight = "\nweight = torch.ones(1, requires_grad=True)\nfor _"
    source = JUDGED.replace("by_judge.zero_grad()", clear).replace("FITTED", fitted).replace("\nfor _", weight)
    found = [k for s in measured(tmp_path, source).signs for k in s.facts.get("looks", ()) if s.optimizer == 1]
    told = [
        (a["answer"], (tmp_path / a["file"]).read_text().splitlines()[a["line"] - 1])
        for k in found
        for a in k["answers"]
    ]
    assert {(answer, "makes" if "maker" in line else "fits") for answer, line in told} == expected
