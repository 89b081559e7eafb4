"""Recording that is off, in real runs: inference mode, a switch never put back, a library's own, and what is no cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import Seen, observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

ADAPTING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.first(x).tanh())


net = Net()


@torch.{mode}()
def predict(x):
    with {inside}:
        net(x).square().mean().backward()
    return net(x)


print(predict(torch.randn(2, 3)).requires_grad)
"""


def adapting(mode: str, inside: str) -> str:
    return HEAD + ADAPTING.format(mode=mode, inside=inside)


def test_enable_grad_inside_inference_mode_is_told_as_inference_mode(tmp_path: Path) -> None:
    seen = observe(tmp_path, adapting("inference_mode", "torch.enable_grad()"))
    assert seen.slugs == ["cut-by-no-grad"]
    assert seen.lines("cause")[0] == "@torch.inference_mode()"
    assert "with torch.enable_grad():" in seen.lines("related")
    assert "enable_grad" in seen.found[0].finding.explanation
    assert seen.found[0].finding.facts[0] == "through it no gradient reaches `net.*` (4 parameters)"


def test_no_grad_in_place_of_inference_mode_comes_first_and_taking_it_away_second(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", adapting("inference_mode", "torch.enable_grad()"))
    assert [kind for kind, _ in seen.patches()] == ["swap_switch", "remove_switch"]
    for number, (_, texts) in enumerate(seen.patches()):
        again = observe(tmp_path / str(number), texts["train.py"])
        assert again.result.status == 0, again.result.stderr


@pytest.mark.parametrize(
    ("mode", "inside"),
    [("no_grad", "torch.enable_grad()"), ("inference_mode", "torch.inference_mode(False)")],
)
def test_a_block_that_does_record_is_left_alone(mode: str, inside: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, adapting(mode, inside))
    assert (seen.result.status, seen.found) == (0, [])


def test_a_block_of_inference_mode_is_swapped_as_a_block(tmp_path: Path) -> None:
    code = """
model = nn.Linear(3, 1)
with torch.inference_mode():
    with torch.enable_grad():
        loss = model(torch.randn(4, 3)).mean()
        loss.backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs == ["cut-by-no-grad"]
    assert seen.lines("cause")[0] == "with torch.inference_mode():"
    kind, texts = seen.patches()[0]
    assert kind == "swap_switch"
    assert "with torch.no_grad():\n    with torch.enable_grad():" in texts["train.py"]


# -- no operation with a slope is told to have none ----------------------------------------------------------------

REENTRANT = """
from torch.utils.checkpoint import checkpoint

front, block = nn.Embedding(5, 4).requires_grad_(False), nn.Linear(4, 4)
low, high = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2, 4))


def adapted(h):
    return block(h) + h @ low @ high


checkpoint(adapted, front(torch.tensor([1, 2])), use_reentrant={reentrant}).square().mean().backward()
"""


def test_what_a_reentrant_checkpoint_runs_is_not_called_nondifferentiable(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + REENTRANT.format(reentrant=True))
    assert seen.slugs == ["checkpoint-no-grad-input"]
    assert seen.evidence is not None
    # The embedding is frozen indeed; what no_grad cut off is no operation without a slope.
    assert {c.reason for c in seen.evidence.cuts} == {"no-grad", "frozen"}


def test_the_checkpoint_that_records_is_left_alone(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + REENTRANT.format(reentrant=False))
    assert (seen.result.status, seen.found) == (0, [])


def test_a_switch_of_the_users_inside_a_checkpoint_is_the_users(tmp_path: Path) -> None:
    code = """
from torch.utils.checkpoint import checkpoint

block = nn.Linear(4, 4)


def frozen(x):
    with torch.no_grad():
        return block(x)


checkpoint(frozen, torch.randn(2, 4), use_reentrant=False).mean().backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "cut-by-no-grad"
    assert seen.lines("cause")[0] == "with torch.no_grad():"
    assert "checkpoint-no-grad-input" not in seen.slugs


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("torch.zeros_like(y).sum()", "constant"),
        ("y.new_ones(3).mean()", "constant"),
        ("torch.histc(y, 4).sum()", "nondifferentiable"),
        ("y.topk(1).indices.float().sum()", "nondifferentiable"),
        ("torch.distributions.Categorical(logits=y).sample().float().mean()", "nondifferentiable"),
        ("torch.distributions.Normal(y, 1.0).sample().mean()", "nondifferentiable"),
    ],
)
def test_only_what_has_no_derivative_is_called_so(expression: str, reason: str, tmp_path: Path) -> None:
    seen = observe(
        tmp_path, f"{HEAD}m = nn.Linear(3, 3)\ny = m(torch.randn(2, 3))\nloss = {expression}\nloss.backward()\n"
    )
    assert seen.evidence is not None
    assert {c.reason for c in seen.evidence.cuts} == {reason}
    assert ("nondifferentiable-op" in seen.slugs) == (reason == "nondifferentiable")


# -- a switch that is never put back -------------------------------------------------------------------------------

HELPER = """
import torch
from torch import nn


class Features:
    def __init__(self):
        torch.set_grad_enabled(False)
        self.net = nn.Linear(3, 3)

    def of(self, x):
        return self._raw(x).relu()

    def _raw(self, x):
        return self.net(x)
"""
USER = """
from helper import Features


def data():
    return Features().of(torch.randn(4, 3))


x, y = data(), torch.randn(4, 1)
model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = (model(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def rerun(folder: Path, seen: Seen, kind: str) -> Seen:
    """The program with the first patch of this kind, run again."""
    assert seen.evidence is not None
    texts = next(texts for k, texts in seen.patches() if k == kind)
    whole = {**seen.evidence.sources, **texts}
    # The fork has the test runner's files among its callers; they have paths and stay as they are.
    others = {name.removesuffix(".py"): text for name, text in whole.items() if name != "train.py" and "/" not in name}
    return observe(folder, whole["train.py"], **others)


def test_a_helpers_switch_is_scoped_to_what_the_helper_computes(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + USER, helper=HELPER)
    assert seen.slugs == ["cut-by-no-grad"]
    assert seen.lines("cause") == ["torch.set_grad_enabled(False)", "loss = (model(x) - y).square().mean()"]
    assert seen.found[0].finding.facts[0] == "through it no gradient reaches `model.*` (4 parameters)"
    kind, texts = seen.patches()[0]
    assert kind == "several"
    assert "set_grad_enabled" not in texts["helper.py"]
    assert "    @torch.no_grad()\n    def of(self, x):" in texts["helper.py"]
    assert texts["helper.py"].count("no_grad") == 1
    assert rerun(tmp_path / "scoped", seen, "several").result.status == 0
    # Taking the switch away alone gives the helper's output a graph, which the second iteration meets freed.
    assert "second time" in rerun(tmp_path / "removed", seen, "remove_switch").result.stderr


def test_a_parameter_that_lives_no_more_lends_its_name_to_nobody(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + USER, helper=HELPER)
    assert seen.evidence is not None
    inside = [c for c in seen.evidence.cuts if any(f.file == "helper.py" for f in c.stack)]
    assert inside
    assert all(not c.behind for c in inside)


VALIDATING = """
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def fit(epochs):
    for epoch in range(epochs):
        loss = (model(x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch.set_grad_enabled(False)
        score = (model(x) - y).abs().mean()
        print(score.requires_grad)


fit(2)
"""


def test_a_switch_in_a_loop_is_scoped_to_the_lines_behind_it(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + VALIDATING)
    kind, texts = seen.patches()[0]
    assert kind == "several"
    assert "        with torch.no_grad():\n            score = (model(x) - y).abs().mean()" in texts["train.py"]
    again = rerun(tmp_path / "again", seen, "several")
    assert (again.result.status, again.result.stdout) == (0, "False\nFalse\n")


def test_a_switch_in_the_way_of_the_training_itself_is_only_taken_away(tmp_path: Path) -> None:
    code = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.set_grad_enabled(False)
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        return self.fc(x)


Net()(torch.randn(2, 3)).mean().backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert [kind for kind, _ in seen.patches()] == ["remove_switch"]


def test_two_operations_of_one_line_are_told_once(tmp_path: Path) -> None:
    code = "a, b = nn.Linear(3, 3), nn.Linear(3, 1)\nwith torch.no_grad():\n    loss = b(a(torch.randn(2, 3))).mean()\n"
    seen = observe(tmp_path, f"{HEAD}{code}loss.backward()\n")
    assert seen.lines("cause") == ["with torch.no_grad():", "loss = b(a(torch.randn(2, 3))).mean()"]
    assert seen.found[0].finding.facts[0] == "through it no gradient reaches `a.*` and `b.*` (4 parameters)"


def test_a_switch_that_nothing_shows_is_given_no_name(tmp_path: Path) -> None:
    (tmp_path / "backend.py").write_text("import torch\n\n\ndef use_arrays():\n    torch._C._set_grad_enabled(False)\n")
    code = "from backend import use_arrays\nuse_arrays()\nnn.Linear(3, 1)(torch.randn(2, 3)).tanh().sum().backward()\n"
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs == ["cut-by-no-grad"]
    assert "while gradient recording is off" in seen.said and "no_grad" not in seen.found[0].finding.title
    assert "no_grad" not in seen.found[0].finding.explanation


# -- what a switch, or a freeze, was meant for ---------------------------------------------------------------------

VALUES = """
net, opt = nn.Linear(3, 1), None
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    with torch.no_grad():
        q = net(torch.randn(4, 3))
        {target}
    loss = (q - {of}).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
ENCODED = """
net = nn.Linear(3, 2)


@torch.no_grad()
def encode(x):
    return net(x)


def loss_of(x):
    return (encode(x) - {other}).square().mean()


loss_of(torch.randn(4, 3)).backward()
"""


SHOWN = """

def shown(x):
    return encode(x).numpy()
"""


NAMESAKE = """

def shown(other, x):
    return other.encode(x).numpy()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "left"),
    [
        (VALUES.format(target="goal = net(torch.randn(4, 3)) * 0.9", of="goal"), "which of `q` and `goal`"),
        (VALUES.format(target="seen = q.mean()", of="1"), ""),
        (ENCODED.format(other="encode(x + 1)"), "`encode` is called at 2 places there"),
        (ENCODED.format(other="x.mean()"), ""),
        (ENCODED.format(other="x.mean()") + SHOWN, "`encode` is called at 2 places of the program"),
        (ENCODED.format(other="x.mean()") + NAMESAKE, ""),
    ],
    ids=["two-values", "one-value", "two-calls", "one-call", "shown-elsewhere", "method-of-that-name"],
)
def test_a_switch_over_several_parts_of_a_loss_is_not_surely_meant_for_none(
    code: str, left: str, tmp_path: Path
) -> None:
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "cut-by-no-grad"
    [removed] = [r for r in seen.found[0].finding.remedies if r.kind == "remove_switch"]
    assert removed.open.startswith(left) and bool(removed.open) == bool(left)


def test_whether_all_that_was_frozen_is_to_learn_is_left_open(tmp_path: Path) -> None:
    code = """
net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
net.requires_grad_(False)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(4, 3)).mean().backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "frozen-parameters"
    remedy = seen.found[0].finding.remedies[0]
    assert remedy.args["statement"] == "net.requires_grad_(True)"
    assert remedy.open.startswith("whether all of `net` is to learn")


COUNTED = """
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(5, 3)
with torch.no_grad():
    p = net(x).softmax(1)
    index = p.topk(1)[{which}]
    made = x.new_zeros(5, 4).scatter_(1, {indices}, {values})
loss = made.square().mean()
opt.zero_grad()
loss.backward()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("which", "indices", "values", "slug"),
    [
        ("1", "index", "1.0", "nondifferentiable-op"),
        ("0", "torch.zeros(5, 1).long()", "index", "cut-by-no-grad"),
    ],
    ids=["the-indices", "the-values"],
)
def test_what_only_counts_has_no_graph_under_no_switch_either(
    which: str, indices: str, values: str, slug: str, tmp_path: Path
) -> None:
    seen = observe(tmp_path, HEAD + COUNTED.format(which=which, indices=indices, values=values))
    assert seen.slugs[0] == slug
