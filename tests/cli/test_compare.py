"""``graphdoc compare``: what it takes, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.cli.arguments import split_anywhere

MODEL = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(8, 16)
        self.decoder = torch.nn.Linear(16, 1)
    def forward(self, x):
        hidden = torch.relu(self.encoder(x))
        return self.decoder(hidden)
"""
TRAIN = """\
import sys, torch
from model import Net
torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=float(sys.argv[1]))
for step in range(5):
    loss = net(torch.randn(4, 8)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch.save(net.state_dict(), "left.pt")
"""


@pytest.mark.parametrize(
    ("words", "ours", "kind", "program"),
    [
        ("train.py --with eager -- --with x", "--with eager", "script", "train.py --with x"),
        ("--with cpu train.py --lr 3 --unkept", "--with cpu --unkept", "script", "train.py --lr 3"),
        ("-m pkg.train --with=HEAD~1 a", "--with=HEAD~1", "module", "pkg.train a"),
        ("--with cpu -- torchrun train.py --with x", "--with cpu", "command", "torchrun train.py --with x"),
    ],
)
def test_options_may_follow_the_program(words: str, ours: str, kind: str, program: str) -> None:
    taken = split_anywhere(words.split(), {"--with"}, {"--unkept"})
    assert taken == (ours.split(), kind, program.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--with", "HEAD~9"), "--with HEAD~9 is none of eager, float64, cpu, one-batch, one-process, and no revision"),
        (("--with", "--report"), "--with --report is none of"),
        ((), "compare needs one of --with and --with-args"),
        (("--with", "cpu", "--with-args", "1"), "compare needs one of --with and --with-args"),
        (("--with-args", "'1"), "--with-args '1: No closing quotation"),
        (("--with", "eager", "--report", "html"), "a comparison is reported as json"),
        (("--with", "eager", "--report", "json:train.py"), "train.py cannot be written, because it is a source file"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = graphdoc(tmp_path, "compare", "train.py", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("graphdoc: ") and told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_revision_whose_gradient_is_lost(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "model.py").write_text(MODEL)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "one")
    words = "compare", "train.py", "--with", "HEAD", "--report", "json:../told.json", "--", "0.1"
    assert graphdoc(tmp_path, *words).stderr == "graphdoc: no difference: no Python file is another one at HEAD\n"
    (tmp_path / "model.py").write_text(MODEL.replace("(x))", "(x)).detach()"))
    done = graphdoc(tmp_path, *words)
    assert done.returncode == 1
    assert "`net.encoder.*` (2 parameters) have no gradient now, and have one at HEAD" in done.stderr
    assert "return self.decoder(hidden)" in done.stderr
    told = json.loads((tmp_path.parent / "told.json").read_text())
    assert told["difference"] is True
    assert (told["place"]["file"], told["place"]["line"]) == ("model.py", 9)
    # A module that the revision has, and nobody has now; and nothing that the runs have written is left.
    (tmp_path / "model.py").rename(tmp_path / "nets.py")
    (tmp_path / "train.py").write_text(TRAIN.replace("from model", "from nets"))
    assert graphdoc(tmp_path, *words).returncode == 1
    assert git(tmp_path, "status", "--short").split() == ["D", "model.py", "M", "train.py", "??", "nets.py"]


RANKS = """\
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
ddp = DistributedDataParallel(model)
net = {"ddp": ddp, "past": ddp.module}[sys.argv[1]]
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(4, 8, 4):
    mine = x[dist.get_rank()::dist.get_world_size()]
    opt.zero_grad()
    (net(mine) - mine.sum(1, keepdim=True)).square().mean().backward()
    opt.step()
del net, ddp, opt  # first: gloo can wait for ever where DDP is the last to hold the group
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("net", "told"), [("ddp", "no difference: "), ("past", "difference at step 1 ")])
def test_ranks_beside_one_process(net: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    launch = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"
    one = ("--with-args", f"{' '.join(launch)} 1 train.py {net}")
    done = graphdoc(tmp_path, "compare", *one, "--", sys.executable, *launch, "2", "train.py", net)
    assert done.returncode == (net != "ddp"), done.stderr
    assert done.stderr.splitlines()[1].startswith(f"graphdoc: {told}")
    assert ("as given, `net(mine)` bypasses DDP: gradients are not averaged" in done.stderr) == (net != "ddp")


WORDS = """\
import os, random, sys, torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
how = sys.argv[1]
torch.manual_seed(0)
words = [torch.arange(1, 2 + (5 * i) % 9 if how in ("unequal", "counted") else 7) + i for i in range(48)]
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(words)
def padded(rows):
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)
def loss_of(net, ids, reduction="mean"):
    logits = net(ids).flatten(0, 1)
    return nn.functional.cross_entropy(logits, ids.flatten(), ignore_index=0, reduction=reduction)
class Skipped(nn.Tanh):
    def forward(self, x):
        return x if how == "skipped" and random.random() < 0.5 else super().forward(x)
net = nn.Sequential(nn.Embedding(64, 8), Skipped(), nn.Linear(8, 64))
"""
OF_RANKS = """\
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
def work(rank, world):
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/met", rank=rank, world_size=world)
    ddp = DistributedDataParallel(net)
    opt = torch.optim.SGD(ddp.parameters(), 0.1)
    loader = DataLoader(words, 4, collate_fn=padded, sampler=DistributedSampler(words, world, rank))
    for ids in loader:
        if how == "cut":
            ids = ids[rank::world]
        opt.zero_grad()
        if how == "counted":
            count = (ids != 0).sum()
            dist.all_reduce(count)
            loss = loss_of(ddp, ids, "sum") * dist.get_world_size() / count
        else:
            loss = loss_of(ddp if how in ("as it is", "unequal", "cut") else net, ids)
        loss.backward()
        if how == "own number":
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= world
        opt.step()
mp.start_processes(work, args=(2,), nprocs=2, start_method="fork")
"""
IN_PARTS = """\
opt = torch.optim.SGD(net.parameters(), 0.1)
streams = how == "stream"
loader = DataLoader(Stream() if streams else words, 4, shuffle=not streams, collate_fn=padded)
for i, ids in enumerate(loader, 1):
    loss = loss_of(net, ids, "sum" if how == "sum" else "mean")
    (loss if how in ("sum", "undivided") else loss / 3).backward()
    if how == "once" or i % 3 == 0:
        opt.step()
        opt.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "kind", "how", "status", "told"),
    [
        (OF_RANKS, "one-process", "as it is", 0, "no difference: on its ranks and in one process with the whole"),
        (OF_RANKS, "one-process", "counted", 0, "no difference: "),
        (OF_RANKS, "one-process", "past", 1, "as given, `net(ids)` bypasses DDP"),
        (OF_RANKS, "one-process", "unequal", 1, "each loss is the mean of its own part ("),
        (
            OF_RANKS,
            "one-process",
            "cut",
            2,
            "cannot be compared: what enters a module at step 1 (as `[0][0]`) is another",
        ),
        (
            OF_RANKS,
            "one-process",
            "own number",
            2,
            "cannot be compared: all differ by 2, the number of ranks that the program passes",
        ),
        (IN_PARTS, "one-process", "as it is", 2, "nothing to compare: the program runs in one process as it is"),
        (IN_PARTS, "one-batch", "as it is", 0, "no difference: in parts and in one batch, the first 3 steps"),
        (IN_PARTS, "one-batch", "sum", 0, "no difference: in parts and in one batch, the first step"),
        (IN_PARTS, "one-batch", "stream", 0, "no difference: in parts and in one batch, the first 3 steps"),
        (IN_PARTS, "one-batch", "skipped", 2, "cannot be compared: the two runs draw other random numbers"),
        (IN_PARTS, "one-batch", "unequal", 1, "each loss is the mean of its own part ("),
        (IN_PARTS, "one-batch", "undivided", 1, "each of 3 losses counts whole: divide each by their number"),
        (
            IN_PARTS,
            "one-batch",
            "once",
            2,
            "nothing to compare: the first step is given the gradient of one backward()",
        ),
    ],
)
def test_parts_beside_the_whole(program: str, kind: str, how: str, status: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORDS + program)
    done = graphdoc(tmp_path, "compare", "train.py", "--with", kind, "--", how)
    assert (done.returncode, told in done.stderr) == (status, True), done.stderr


UNCHECKED = """\
import torch
torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(3, 3))
opt = torch.optim.SGD([w], 0.1)
x = torch.randn(2, 3)
@torch.compile(backend=lambda module, _: lambda *args: module(*[a.clone() for a in args]))
def f(x):
    return x @ w
for _ in range(4):
    loss = f(x).square().sum()
    x.copy_(torch.randn(2, 3))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.slow
def test_what_autograd_refuses_uncompiled_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNCHECKED)
    done = graphdoc(tmp_path, "compare", "train.py", "--with", "eager", "--report", "json:told.json")
    assert done.returncode == 1
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["difference"] is True
    assert told["sentences"][0].startswith(
        "difference: compiled, the program makes steps; uncompiled, autograd refuses"
    )
    assert told["sentences"][0].endswith("is at version 1; expected version 0 instead")
    (tmp_path / "train.py").write_text(UNCHECKED.replace("x.copy_(", "x = (").replace("for _", "raise KeyError\nfor _"))
    assert graphdoc(tmp_path, "compare", "train.py", "--with", "eager").returncode == 2


@pytest.mark.slow
def test_how_it_ends_without_a_difference_or_a_step(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    done = graphdoc(tmp_path, "compare", "train.py", "--with", "float64", "0.1")
    assert done.returncode == 0
    assert "no difference: in its own precision and in float64, the first 3 steps" in done.stderr.splitlines()[-1]
    for kind, why in (("cpu", "parameters are on the CPU as it is"), ("eager", "compiles nothing in its first steps")):
        done = graphdoc(tmp_path, "compare", "train.py", "--with", kind, "0.1")
        assert done.returncode == 2
        assert done.stderr.endswith(f"{why}\n")
    done = graphdoc(tmp_path, "compare", "train.py", "--with", "eager", "fast")
    assert done.returncode == 2
    assert "could not convert string to float: 'fast'" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_first_interrupt_ends_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time, torch\ntime.sleep(100)\n")
    words = [sys.executable, "-m", "graphdoc", "compare", "train.py", "--with", "float64"]
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a job of a shell has none
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("graphdoc: running train.py up to three times, apart from")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == "graphdoc: interrupted\n"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout
