"""A generator of parameters with a filter by name, used up before the optimizer that a function makes and returns."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

TEXT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.tip = nn.Linear(6, 12), nn.Linear(12, 2)

    def forward(self, x):
        return self.tip(self.trunk(x).tanh())


def build(net):
    slow = (p for n, p in net.named_parameters() if FILTER)
    fast = (p for n, p in net.named_parameters() if n.startswith("tip"))
    print(sum(p.numel() for p in slow))
    return torch.optim.AdamW([{"params": fast}, {"params": slow, "lr": 1e-4}], lr=1e-2)


torch.manual_seed(0)
net = Net()
optimizer = build(net)
for _ in range(14):
    x = torch.randn(16, 6)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long()).backward()
    optimizer.step()
"""


def test_a_named_part_that_was_counted_first_is_told_and_mended(tmp_path: Path) -> None:
    seen = observe(tmp_path, TEXT.replace("FILTER", 'n.startswith("trunk")'))
    assert seen.slugs[:1] == ["parameters-never-reached"]
    assert seen.lines("cause") == ['slow = (p for n, p in net.named_parameters() if n.startswith("trunk"))']
    assert seen.found[0].finding.title.startswith("`slow` is an exhausted iterator: `optimizer` is given nothing")
    kind, texts = seen.patches()[0]
    assert kind == "rewrite"
    assert observe(tmp_path / "mended", texts["train.py"]).mended


def test_a_filter_that_no_parameter_passes_is_healthy(tmp_path: Path) -> None:
    assert observe(tmp_path, TEXT.replace("FILTER", '"adapter" in n and not n.endswith("bias")')).slugs == []


def test_a_filter_that_the_source_does_not_tell_is_told_by_the_run(tmp_path: Path) -> None:
    seen = observe(tmp_path, TEXT.replace("FILTER", "n.split('.')[0] in {'trunk'}"))
    assert seen.lines("cause") == ["slow = (p for n, p in net.named_parameters() if n.split('.')[0] in {'trunk'})"]
    assert seen.found[0].finding.title == "1 of 2 groups of `optimizer` is empty: the iterators were used up"
    texts = next(texts for kind, texts in seen.patches() if kind == "rewrite")
    assert observe(tmp_path / "mended", texts["train.py"]).mended


def test_an_iterator_that_was_rightly_empty_leaves_nothing_out(tmp_path: Path) -> None:
    text = TEXT.replace("FILTER", "n.split('.')[0] in {'adapter'}").replace('n.startswith("tip")', '"." in n')
    assert observe(tmp_path, text).slugs == []


def test_iterators_of_a_helper_are_told(tmp_path: Path) -> None:
    groups = """\
def groups_of(parts, rates):
    groups, count = [], 0
    for part, rate in zip(parts, rates):
        mine = part.parameters()
        count += sum(1 for _ in mine)
        groups.append(dict(params=mine, lr=rate))
    return groups, count


def build(net):
    groups, count = groups_of([net.trunk], [1e-4])
    groups.append({"params": net.tip.parameters()})
    print(count)
    return torch.optim.AdamW(groups, lr=1e-2)


torch.manual"""
    before, _, behind = TEXT.partition("def build")
    seen = observe(tmp_path, before + groups + behind.partition("torch.manual")[2])
    assert seen.lines("cause") == ["mine = part.parameters()"]
    assert "rewrite" in [kind for kind, _ in seen.patches()]


BOUNDED = """\
import torch
from torch import nn


def build():
    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
    weights = COPY(p for p in net.parameters() if p.requires_grad)
    return net, torch.optim.SGD(weights, lr=0.05), weights


def main():
    torch.manual_seed(0)
    net, optimizer, mine = build()

    def update(loss):
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(mine, 0.1)
        optimizer.step()

    for _ in range(12):
        x = torch.randn(16, 6)
        update(nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long()))


main()
"""


def test_an_iterator_that_a_function_returns_and_a_closure_uses_is_told_and_mended(tmp_path: Path) -> None:
    seen = observe(tmp_path, BOUNDED.replace("COPY", ""))
    assert seen.slugs[:1] == ["clipping-without-effect"]
    assert seen.lines("cause") == ["weights = (p for p in net.parameters() if p.requires_grad)"]
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


def test_a_list_that_a_function_returns_and_a_closure_uses_is_healthy(tmp_path: Path) -> None:
    assert observe(tmp_path, BOUNDED.replace("COPY", "list")).slugs == []


AGAIN = """\
import torch

class Chosen:
    def __init__(self, net): self.net = net
    def __iter__(self):
        self.left = [p for p in self.net.parameters() if p.requires_grad]
        return self
    def __next__(self):
        if not self.left: raise StopIteration
        return self.left.pop()
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
optimizer.param_groups[0]["params"] = Chosen(net)
for _ in range(10):
    optimizer.zero_grad()
    net(torch.randn(32, 4)).pow(2).mean().backward()
    optimizer.step()
"""


def test_an_iterator_that_begins_anew_each_time_is_healthy(tmp_path: Path) -> None:
    assert observe(tmp_path, AGAIN).slugs == []


ENDED = """\
import gc, torch, weakref

def train():
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(6):
        net.zero_grad()
        net(torch.randn(32, 4)).pow(2).mean().backward()
        optimizer.param_groups[0]["params"] = filter(lambda p: p is not net.bias, net.parameters())
        optimizer.step()
    return weakref.ref(net)
net = train()
gc.collect()
assert net() is None
"""


def test_an_iterator_that_was_looked_at_keeps_no_network_alive(tmp_path: Path) -> None:
    seen = observe(tmp_path, ENDED)
    assert seen.slugs == []
    assert seen.result.status == 0
