"""Two runs of one program: what rounding explains is no difference, and what it does not is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tracing import traced

from graphdoc.capture.trials.comparing import mean_over
from graphdoc.verify.against import OTHER_DRAWS, Compared, Runs, compare
from graphdoc.verify.measures import draws_elsewhere
from graphdoc.verify.traces import Trace
from graphdoc.verify.two_runs import KINDS, PLAIN, Against, mode_of, place, sentences

START = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
"""
LOOP = """
opt = torch.optim.{optimizer}
for _ in range(5):
    x = torch.randn(16, 8)
    loss = ((net(x) - x.sum(1, keepdim=True)) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
ADAM = LOOP.format(optimizer="Adam(net.parameters(), 1e-2)")
MLP = START + "net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))" + ADAM
NORM = """
class Norm(nn.Module):
    def forward(self, x):
        return VARIANCE
net = nn.Sequential(nn.Linear(8, 32), Norm(), nn.Linear(32, 1))
"""
UNSTABLE = "x / (((x + 3e3) ** 2).mean(-1, keepdim=True) - (x + 3e3).mean(-1, keepdim=True) ** 2 + 1e-3).sqrt()"
STABLE = "x / (x.var(-1, keepdim=True) + 1e-3).sqrt()"
TRANSFORMER = (
    START
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))
    def forward(self, x):
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.second(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(16, 20)
    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))
model = Model()
net = MADE
opt = torch.optim.AdamW(model.parameters())
for _ in range(4):
    tokens = torch.randint(20, (4, 9))
    loss = F.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)
CONVOLUTION = """
body = nn.Unflatten(1, (1, 2, 4)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
net = nn.Sequential(*body, nn.Linear(12, 1))
"""
MIXED = MLP.replace("net(x)", "torch.autocast('cpu', torch.bfloat16)(net)(x)")
TWO = (
    START
    + """
net, other = nn.Linear(4, 4), nn.Linear(4, 1)
first, second = torch.optim.Adam(net.parameters()), torch.optim.SGD(other.parameters(), 0.1)
kept = torch.zeros(3, 4, dtype=torch.float32)
for _ in range(5):
    kept[:] = torch.rand(3, 4)
    made = net(kept)
    second.zero_grad()
    other(made.detach()).square().mean().backward()
    second.step()
    first.zero_grad()
    other(made).sigmoid().log().mean().backward()
    first.step()
"""
)
# What a conversion gives is another tensor only where it is one in the program's own precision.
CONVERTED = (
    START
    + """
net, low = nn.Linear(8, 1), nn.Linear(8, 1).bfloat16()
first, wide = nn.Parameter(torch.randn(8)).float(), nn.Parameter(torch.randn(8, dtype=torch.float64)).double()
before = [p.detach().double() for p in net.parameters()] + [p.detach().float() for p in low.parameters()]
itself = first.detach().float(), wide.detach().to(torch.float64)
master = nn.Parameter(net.weight.data.double())
opt = torch.optim.SGD([first, wide, master, *net.parameters(), *low.parameters()], 0.1)
for _ in range(3):
    x = torch.randn(4, 8)
    loss = (net(x) + low(x.bfloat16())).square().mean() + (x.double() @ (first * itself[0] + itself[1] * wide)).mean()
    for p, was in zip([*net.parameters(), *low.parameters()], before):
        loss = loss + (p.to(was) - was).square().sum()
    opt.zero_grad()
    loss.backward()
    master.grad = net.weight.grad.double()
    net.weight.grad.mul_(2)
    opt.step()
    net.weight.data.lerp_(master.data.float(), 0.5)
"""
)
CLOSURE = (
    START
    + "net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))"
    + """
opt = torch.optim.LBFGS(net.parameters(), max_iter=3)
x = torch.randn(16, 8)
def closure():
    opt.zero_grad()
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    return loss
for _ in range(4):
    opt.step(closure)
"""
)
# A loss that is the same whatever the network is: each of its gradients is rounding.
CONSTANT = (
    START
    + "net = nn.Linear(8, 4)"
    + ADAM.replace(
        "((net(x) - x.sum(1, keepdim=True)) ** 2)", "F.batch_norm(net(x), None, None, training=True).square()"
    )
)
HALVED = """
def backend(module, _inputs):
    def run(*args):
        return tuple(o / 2 + (o / 2).detach() for o in module(*args))
    return run
"""
DROPPED = """
def backend(module, _inputs):
    def run(*args):
        return tuple(o + 0.01 * o.abs() for o in module(*args))
    return run
"""
REDRAWN = """
def backend(module, _inputs):
    def run(*args):
        torch.rand(1)
        return module(*args)
    return run
"""
COMPILED = """
body, head = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 4)), nn.Linear(4, 1)
fast = torch.compile(body, backend=backend)
net = nn.Sequential(body, head)
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(4):
    loss = head(fast(torch.randn(16, 8))).square().mean()  # the compiled call
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
# Traced by AOTAutograd, as most backends are: a call of the engine before the first one of the program's own.
TRACED = """
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
def forward(module, _inputs):
    return make_boxed_func(module.forward)
def backward(module, _inputs):
    return make_boxed_func(lambda *args: tuple(g if g is None else g * 0.9 for g in module(*args)))
backend = aot_autograd(fw_compiler=forward, bw_compiler=backward)
"""
FUNCTION = (
    HALVED
    + """
net = nn.Linear(8, 4)
@torch.compile(backend=backend)
def fast(x):
    return net(x).tanh()
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(4):
    loss = fast(torch.randn(16, 8)).square().mean()  # the compiled call
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)
ENCODER = (
    START
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 16), nn.Linear(16, 1)
    def forward(self, x):
        hidden = torch.relu(self.encoder(x))
        return self.decoder(hidden)
net = Net()
"""
    + ADAM
)
DETACHED = ENCODER.replace("torch.relu(self.encoder(x))", "torch.relu(self.encoder(x)).detach()")

# A forward that writes to what it is given, of which the caller keeps the original.
WRITTEN = (
    START
    + """
class Decayed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 1)
    def forward(self, window):
        window.mul_(3)
        return self.layer(window)
net = Decayed()
opt = torch.optim.SGD(net.parameters(), 0.1)
window = torch.randn(4, 6)
for _ in range(4):
    loss = net(window).square().mean().log()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)
# A region that reads a parameter by itself, and one that gives the gradients of another: no call is the program's own.
READS = """
w, v = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8))
@torch.compile(backend=backend)
def fast(x):
    return (x * w).tanh()
@torch.compile(backend=other)
def gradient(x, v):
    return 2 * x.mean(0) * v
opt = torch.optim.SGD([WHICH], 0.1)
for _ in range(4):
    x = torch.randn(16, 8)
    if WHICH is w:
        loss = fast(x).square().mean()  # the compiled call
        opt.zero_grad()
        loss.backward()
    else:
        v.grad = gradient(x, v.detach())  # the other compiled call
    opt.step()
"""
SHARED = """
net = nn.Linear(6, 1)
@torch.compile(backend=backend)
def shift(window, recent):
    window.add_(0.1)
    return recent[0] * 2
opt = torch.optim.SGD(net.parameters(), 0.1)
window = torch.randn(4, 6)
for _ in range(4):
    loss = net(shift(window, window[1:])).square().sum()  # the compiled call
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

HEALTHY = {
    "written-float64": (WRITTEN, "float64"),
    "mlp-float64": (MLP, "float64"),
    "stable-float64": (START + NORM.replace("VARIANCE", STABLE) + ADAM, "float64"),
    "transformer-float64": (TRANSFORMER.replace("MADE", "model"), "float64"),
    "convolution-float64": (START + CONVOLUTION + ADAM, "float64"),
    "mixed-float64": (MIXED, "float64"),
    "constant-float64": (CONSTANT, "float64"),
    "two-optimizers-float64": (TWO, "float64"),
    "closure-float64": (CLOSURE, "float64"),
    "converted-float64": (CONVERTED, "float64"),
    "transformer-eager": (TRANSFORMER.replace("MADE", "torch.compile(model, backend='aot_eager')"), "eager"),
    "compiled-eager": (START + COMPILED.replace("backend=backend", "backend='aot_eager'"), "eager"),
}


SLOW = {
    "transformer-float64",
    "transformer-eager",
    "compiled-eager",
    "function",
    "traced",
    "shared",
    "reads",
    "assigned",
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in HEALTHY])
def test_rounding_is_no_difference(name: str, tmp_path: Path) -> None:
    source, kind = HEALTHY[name]
    found = found_in(tmp_path, source, KINDS[kind])
    assert (found.parts, found.untold) == ([], "")
    assert found.steps == 3
    assert sentences(found, KINDS[kind])[0].startswith("no difference: ")


SICK = {
    "unstable": (START + NORM.replace("VARIANCE", UNSTABLE) + ADAM, "float64", "out", UNSTABLE),
    "backward": (START + HALVED + COMPILED, "eager", "given", "# the compiled call"),
    "forward": (START + DROPPED + COMPILED, "eager", "out", "# the compiled call"),
    "function": (START + FUNCTION, "eager", "given", "# the compiled call"),
    "traced": (START + TRACED + COMPILED, "eager", "given", "# the compiled call"),
    "reads": (
        START + HALVED + "other = backend" + READS.replace("WHICH", "w"),
        "eager",
        "within",
        "# the compiled call",
    ),
    "assigned": (START + DROPPED + "other = backend" + READS.replace("WHICH", "v"), "eager", "out", "# the other"),
    "shared": (START + DROPPED + SHARED, "eager", "out", "# the compiled call"),
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in SICK])
def test_other_gradients_are_told_with_their_place(name: str, tmp_path: Path) -> None:
    source, kind, stage, line = SICK[name]
    found = found_in(tmp_path, source, KINDS[kind])
    assert found.step == 1
    assert found.parting is not None
    assert found.parting.stage == stage
    span = place(found.parting)
    assert span is not None
    assert line in source.splitlines()[span.line - 1]
    assert sentences(found, KINDS[kind])[0].startswith("difference at step 1 of `opt`: ")


@pytest.mark.slow
def test_what_is_drawn_otherwise_is_no_fault(tmp_path: Path) -> None:
    found = found_in(tmp_path, START + REDRAWN + COMPILED, KINDS["eager"])
    assert found.untold == OTHER_DRAWS


def test_numbers_that_rounding_moves_tell_nothing(tmp_path: Path) -> None:
    chaos = "net = nn.Linear(8, 1)" + ADAM.replace("net(x)", "torch.sin(1e7 * net(x))")
    found = found_in(tmp_path, START + chaos, KINDS["float64"])
    assert not found.parts
    assert "rounding alone" in found.untold


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("now", "before", "words"),
    [(DETACHED, ENCODER, "have no gradient now, and have one"), (ENCODER, DETACHED, "have no gradient at HEAD~1, and")],
    ids=["lost", "gained"],
)
def test_a_gradient_that_another_revision_has(now: str, before: str, words: str, tmp_path: Path) -> None:
    other = Against("HEAD~1", PLAIN, PLAIN, "now", "at HEAD~1", {"train.py": before})
    found = found_in(tmp_path, now, other)
    assert sorted(p.name for p in found.parts if p.lost or p.gained) == ["net.encoder.bias", "net.encoder.weight"]
    assert f"`net.encoder.*` (2 parameters) {words}" in sentences(found, other)[0]
    assert found.parting is not None
    assert "self.decoder(hidden)" in now.splitlines()[found.parting.seen.place[1] - 1]


MICRO = (
    START
    + """
net = MODEL
opt = torch.optim.SGD(net.parameters(), 0.1)
data = torch.randn(64, 8)
for x in data.split(16):
    opt.zero_grad()
    for part in x.split(SIZES):
        (net(part).square().mean() * SCALE).backward()
    opt.step()
"""
)
WHOLE = {"SIZES": "16", "SCALE": "1", "MODEL": "nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))"}
NORMED = WHOLE["MODEL"].replace("nn.Tanh()", "nn.BatchNorm1d(4)")


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"SIZES": "(4, 12)", "SCALE": "0.5"}, ["rounding explains 0.0001", "as given: 2 ", "(4 and 12 numbers)"]),
        ({"SIZES": "(4, 12)", "SCALE": "len(part) / 16"}, ["no difference: "]),
        ({"SIZES": "4", "SCALE": "0.25"}, ["no difference: as given and with `1`, the first 3 steps"]),
        ({"SIZES": "4"}, ["4 times the other one, in the same direction", "4 backward() calls (line 13) before"]),
        ({"SIZES": "4", "SCALE": "0.25", "MODEL": NORMED}, ["difference", "as given: ", "BatchNorm (line 13) takes"]),
        ({"SIZES": "4", "MODEL": f"nn.Sequential(nn.Dropout(), {WHOLE['MODEL']})"}, ["draw other random numbers"]),
    ],
    ids=["unequal", "weighed", "divided", "not-divided", "batchnorm", "dropout"],
)
def test_parts_of_a_batch_beside_the_whole(parts: dict[str, str], words: list[str], tmp_path: Path) -> None:
    def text(values: dict[str, str]) -> str:
        made = MICRO
        for name, value in values.items():
            made = made.replace(name, value)
        return made

    given = {**WHOLE, **parts}
    whole = text({**WHOLE, "MODEL": given["MODEL"]})
    other = Against("1", PLAIN, PLAIN, "as given", "with `1`", {"train.py": whole}, ["1"])
    told = sentences(found_in(tmp_path, text(given), other), other)
    assert len(told) == len(words)
    assert all(word in line for word, line in zip(words, told, strict=True)), told


def test_a_parameter_of_another_shape_is_another_one(tmp_path: Path) -> None:
    part = START + "net = nn.Linear(8, 1)\nnet.part = nn.Parameter(torch.ones(2))" + ADAM
    part = part.replace("net(x)", "(net(x) + net.part.square().mean())")
    other = Against("1", PLAIN, PLAIN, "as given", "with `1`", {"train.py": part.replace("ones(2)", "ones(4)")}, ["1"])
    assert sentences(found_in(tmp_path, part, other), other)[0].startswith("no difference: ")


def found_in(folder: Path, source: str, other: Against) -> Compared:
    """What a comparison of three runs in forks of this process finds."""

    def run(name: str, text: str, words: tuple[str, ...], eps: float = 0.0) -> Trace:
        return traced(folder / name, text, mode_of(words, 3, eps)).trace

    base = run("base", source, other.base)
    second = run("second", (other.texts or {}).get("train.py", source), other.other)
    near = base if other.texts else second
    moved = run("moved", source, other.base if other.texts else other.other, base.coarsest)
    return compare(Runs(base, second, near, moved, lambda line: line, other.arguments is not None))


RANKS = (
    START
    + """
import multiprocessing

def work():
    net = nn.Linear(8, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    net(torch.randn(4, 8)).mean().backward()
    opt.step()

process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
"""
)


def test_a_forked_rank_draws_alike_in_each_run(tmp_path: Path) -> None:
    first, second = (traced(tmp_path / name, RANKS, mode_of(PLAIN, 3)).trace for name in ("first", "second"))
    assert first.steps and first.draws
    assert not draws_elsewhere(first, second)


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        ("x.mean()", 12),
        ("-3 * x.mean()", 12),
        ("F.cross_entropy(x, torch.tensor([0, -100, 1, 2]))", 3),
        ("(x.sum(1) * keep).sum() / keep.sum()", 2),
        ("F.mse_loss(x, torch.ones(4, 3))", 12),
        ("F.mse_loss(x, torch.ones(4, 3), reduction='sum')", 0),
        ("x.sum()", 0),
        ("x.mean() + x[0].mean()", 0),
    ],
)
def test_how_many_numbers_a_loss_is_the_mean_of(loss: str, count: int) -> None:
    values = {"x": torch.randn(4, 3, requires_grad=True), "keep": torch.tensor([1.0, 0, 1, 0]), "F": F, "torch": torch}
    assert mean_over(eval(loss, values).grad_fn)[0] == count
