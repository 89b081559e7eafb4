"""What is said of an older graph is so: who trains what, which line carries a state on, what was used up."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from forked import run_forked
from seen import Seen, observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

SHARED = """
encoder = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
a, b = nn.Linear(4, 1), nn.Linear(4, 1)
opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
opt_b = torch.optim.SGD(b.parameters(), lr=0.1)
for _ in range(3):
    z = encoder(torch.randn(8, 3))
    opt_a.zero_grad()
    a(z).square().mean().backward()
    opt_a.step()
    opt_b.zero_grad()
    b(z).abs().mean().backward()
    opt_b.step()
"""

TEACHER = """
teacher, student = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(3, 4)
opt = torch.optim.SGD(student.parameters(), lr=0.1)


def epoch(x, target):
    for _ in range(2):
        loss = (student(x) - target).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


x = torch.randn(8, 3)
epoch(x, teacher(x).detach())
epoch(x, teacher(x))
"""

STARTED = """
cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state = cell(torch.randn(2, 3))
for _ in range(3):
    x = torch.randn(2, 3)
    loss = head(state).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    state = cell(x, state)
"""

AVERAGE = """
net, head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)


def track(memory, new):
    return 0.9 * memory + 0.1 * new


memory = net(torch.randn(8, 3)).mean(0).exp()
for _ in range(3):
    f = net(torch.randn(8, 3)).mean(0)
    memory = track(memory, f)
    loss = (head(f) - memory.sum()).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

ACTOR = """
actor = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
critic = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 3)
    action = actor(x)
    value = critic(torch.cat([x, action], 1))
    critic_loss = (value - torch.randn(8, 1)).square().mean()
    actor_loss = -value.mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
"""


def ends_well(seen: Seen, number: int, folder: Path) -> bool:
    _, texts = seen.patches()[number]
    script = folder / "patched.py"
    script.write_text(next(iter(texts.values())))
    ast.parse(script.read_text())
    return run_forked(script).status == 0


def test_what_neither_loss_trains_is_data_for_both(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + SHARED)
    assert seen.slugs == ["undetached-target"]
    assert "meant to train" not in seen.said
    assert "Another loss" not in seen.said
    assert "in no optimizer" in seen.said
    assert "`opt_a` and `opt_b`" in seen.said
    assert seen.lines("cause") == ["z = encoder(torch.randn(8, 3))"]
    assert "encoder(torch.randn(8, 3)).detach()" in next(iter(seen.patches()[0][1].values()))
    assert ends_well(seen, 0, tmp_path)


def test_what_neither_loss_trains_is_not_detached_while_its_gradient_is_read(tmp_path: Path) -> None:
    by_hand = SHARED + "    for p in encoder.parameters():\n        p.data -= 0.1 * p.grad\n"
    seen = observe(tmp_path, HEAD + by_hand)
    assert seen.slugs == ["shared-subgraph-losses"]
    assert seen.found[0].finding.confidence != "certain"
    assert "Both are meant" not in seen.said


def test_what_no_optimizer_has_is_not_said_to_be_trained(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + TEACHER)
    assert seen.slugs == ["undetached-target"]
    assert "Another loss and its optimizer" not in seen.said
    assert "in no optimizer" in seen.said


def test_the_line_that_carries_a_state_on_is_meant_and_not_its_start(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + STARTED)
    assert seen.slugs[0] == "carried-state"
    assert seen.lines("cause") == ["state = cell(x, state)"]
    assert "    opt.step()\n    state = state.detach()\n    state = cell(x, state)" in "".join(
        seen.patches()[0][1].values()
    )
    assert ends_well(seen, 0, tmp_path)


def test_the_start_of_a_running_average_is_not_told_as_kept(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + AVERAGE)
    assert seen.slugs[0] == "carried-state"
    assert seen.lines("cause")[0] == "memory = track(memory, f)"
    assert not any(line.startswith("memory = net(") for line in seen.lines("cause"))
    kept = [s for s in seen.found[0].finding.spans if s.label.startswith("kept here")]
    assert len(kept) == 1


def test_losses_that_train_a_part_each_are_not_said_to_train_all(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + ACTOR)
    assert "Both are meant to train" not in seen.said
    assert "with `critic_opt`" in seen.said and "with `actor_opt`" in seen.said
    assert "call backward once" not in seen.said


def test_a_loss_that_needs_what_a_step_has_changed_gets_a_forward_pass_of_its_own(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + ACTOR)
    kind, texts = seen.patches()[0]
    assert kind == "recompute_after"
    behind = (
        "    critic_opt.step()\n    action = actor(x)\n    value = critic(torch.cat([x, action], 1))\n    actor_loss ="
    )
    assert behind in next(iter(texts.values()))
    assert "value.detach()" not in next(iter(texts.values()))
    assert ends_well(seen, 0, tmp_path)


def test_a_result_that_the_line_of_the_call_changes_is_not_called_the_same_tensor(tmp_path: Path) -> None:
    code = "net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())\nscore = net(torch.ones(1, 3)).exp().sum()\n"
    seen = observe(tmp_path, HEAD + code + "for _ in range(2):\n    (-score).backward()\n")
    assert seen.slugs[0] == "repeated-backward"
    assert "same tensor" not in seen.said and "very tensor" not in seen.said
    assert seen.found[0].finding.confidence == "likely"


def test_what_is_meant_is_not_certain_where_no_optimizer_tells_whom_a_loss_trains(tmp_path: Path) -> None:
    code = """
net, head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1)
code = net(torch.ones(1, 3)).exp()
for _ in range(2):
    loss = head(code).square().sum()
    loss.backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "graph-built-once"
    assert seen.found[0].finding.confidence == "likely"


def test_a_stale_graph_is_not_called_freed(tmp_path: Path) -> None:
    later = ACTOR.replace("critic_loss.backward()", "critic_loss.backward(retain_graph=True)")
    seen = observe(tmp_path, HEAD + later)
    assert seen.evidence is not None and "modified by an inplace operation" in seen.evidence.message
    assert not {"shared-subgraph-losses", "graph-built-once"} & set(seen.slugs)


COMPLEX = """
x = torch.tensor([1.0, 2.0], requires_grad=True)
z = (x * (1 + 2j)).sum()
z.backward()
"""
INTEGER_INSIDE = """
net = nn.Linear(2, 2)
net.register_parameter("ids", nn.Parameter(torch.tensor([1, 2]), requires_grad=False))
net.requires_grad_(True)
"""
RESULT_INSIDE = """
net = nn.Linear(2, 2)
weight = net.weight
net._parameters["weight"] = weight * 2
net.requires_grad_(False)
"""
COPIED_CALL = """
import copy


class Store:
    pass


def make():
    store = Store()
    store.parts = {"k": net(torch.ones(1, 2))}
    return store


net, log = nn.Linear(2, 2), Store()
log.loss = net(torch.ones(2)).sum()
copy.deepcopy(make())
"""


def test_a_complex_number_is_not_said_to_have_several_elements(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + COMPLEX)
    assert seen.slugs == ["non-scalar-loss"]
    assert "more than one element" not in seen.said and "`z` is complex" in seen.said


def test_a_module_is_called_neither_whole_numbers_nor_a_result(tmp_path: Path) -> None:
    whole, result = (
        observe(tmp_path / "whole", HEAD + INTEGER_INSIDE),
        observe(tmp_path / "result", HEAD + RESULT_INSIDE),
    )
    assert (whole.slugs, result.slugs) == (["integer-requires-grad"], ["requires-grad-on-non-leaf"])
    assert "`net` holds" not in whole.said
    assert "`net` is the result" not in result.said and "this tensor" not in result.said


def test_what_was_not_seen_in_what_is_copied_is_not_certain(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + COPIED_CALL)
    assert seen.slugs == ["deepcopy-non-leaf"]
    assert seen.found[0].finding.confidence != "certain"
    assert "cannot copy `log.loss`" not in seen.said


ASKED_TWICE = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(4, 3)).square().mean()
for p in net.parameters():
    (p.grad,) = torch.autograd.grad(loss, p)
    STEP
"""


def test_the_graph_is_kept_only_where_no_optimizer_steps_in_between(tmp_path: Path) -> None:
    told = {}
    for step in ("pass", "opt.step()"):
        seen = observe(tmp_path / step.partition(".")[0], HEAD + ASKED_TWICE.replace("STEP", step))
        told[step] = [r.note for r in seen.found[0].finding.remedies if r.args.get("name") == "retain_graph"]
    kept = "The graph stays until the last call that needs it. No optimizer steps in between."
    assert told == {"pass": [kept], "opt.step()": []}


SCRIPTED = """\
@torch.jit.script
def spread(src: torch.Tensor, index: torch.Tensor, size: int):
    top = torch.zeros(size).scatter_reduce(0, index, src, "amax", include_self=False)
    e = (src - top[index]).exp_()
    e.div_(torch.zeros(size).index_add(0, index, e)[index])
    return e


layer = nn.Linear(3, 1)
x, index = torch.randn(12, 3), torch.randint(0, 4, (12,))
score = nn.functional.leaky_relu(layer(x).squeeze(-1), 0.2)
alpha = spread(score, index, 4)
(alpha * x[:, 0]).sum().backward()
"""


def test_what_a_called_function_writes_is_not_named_after_its_first_argument(tmp_path: Path) -> None:
    found = observe(tmp_path, HEAD + SCRIPTED).found[0].finding
    assert "`score`" not in found.title and not any("score" in fact for fact in found.facts)


VIEWS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.rows = list(self.linear.weight)

    def forward(self, x):
        return self.linear(x)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(8, 3)).square().mean() + sum(w.norm() for w in net.rows)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_view_that_is_used_after_its_base_was_stepped_is_not_written_there(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + VIEWS)
    assert seen.slugs == ["inplace-on-view"]
    assert "is written" not in seen.said and "is used here" in seen.said


PENALTY = """
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
penalty = 0
for p in net.parameters():
    penalty = penalty + 0.01 * p.square().sum()
for _ in range(3):
    loss = net(torch.randn(8, 3)).square().mean() + penalty
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
"""


def test_a_term_of_the_loss_is_not_taken_as_a_constant(tmp_path: Path) -> None:
    """Detached, a penalty that was computed once would do nothing at all."""
    for text in (PENALTY, PENALTY.replace("retain_graph=True", "")):
        seen = observe(tmp_path / str(len(text)), HEAD + text)
        kinds = [r.kind for r in seen.found[0].finding.remedies]
        assert not any(k.startswith(("detach", "no_grad")) for k in kinds), (seen.slugs, kinds)


SINES = """
def fill(table):
    table[:, 0::2] = torch.sin(torch.arange(3.0))[:, None]
    table.requires_grad = False


embedding, head = nn.Embedding(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)
fill(table=embedding.weight)
head(embedding(torch.arange(3))).square().mean().backward()
opt.step()
"""


def test_a_parameter_that_a_function_was_handed_is_not_called_a_view(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + SINES)
    assert seen.slugs == ["inplace-on-leaf"]
    assert "`table` is a leaf that requires grad (or a view)" in seen.said


PARTLY = """
actor, critic, gain = nn.Linear(4, 2), nn.Linear(4, 1), nn.Parameter(torch.ones(1))
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    advantage = torch.rand(8, 1) - gain * critic(x)
    critic_opt.zero_grad()
    advantage.square().mean().backward()
    critic_opt.step()
    actor_opt.zero_grad()
    (actor(x).log_softmax(-1) * advantage).mean().backward()
    actor_opt.step()
"""


def test_of_what_lies_behind_only_what_an_optimizer_holds_is_trained_by_it(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + PARTLY)
    assert seen.slugs[0] == "undetached-target"
    assert "2 of them trained by `critic_opt`" in seen.said


def test_the_inference_tensor_that_is_written_is_named(tmp_path: Path) -> None:
    code = """
    def evaluated(data):
        total = 0
        with torch.inference_mode():
            for x, y in data:
                x, y = x * 1, y * 1
                total += (x - y).abs().mean()
        total /= len(data)
        return total


    print(evaluated([(torch.randn(3), torch.randn(3))] * 2))
    """
    seen = observe(tmp_path, textwrap.dedent("import torch\n" + textwrap.dedent(code)))
    assert seen.slugs == ["inplace-on-inference-tensor"]
    assert "`total` was made in inference mode and is changed in place outside of it" in seen.said


ROWS = """
net = nn.Linear(2, 1)
x = torch.randn(4, 2, requires_grad=True)
score = net(x).squeeze(-1)
score.backward()
print({read})
"""


def test_a_derivative_by_row_is_that_of_the_sum(tmp_path: Path) -> None:
    by_row = observe(tmp_path / "row", HEAD + ROWS.format(read="x.grad.shape"))
    a_loss = observe(tmp_path / "loss", HEAD + ROWS.format(read="net.weight.grad.shape"))
    for seen, method in ((by_row, "sum"), (a_loss, "mean")):
        assert seen.slugs == ["non-scalar-loss"]
        assert seen.found[0].finding.remedies[0].args["method"] == method


KEPT = """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
state, kept = torch.zeros(1, 3), []
for _ in range(3):
    {made}
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("made", "loss", "told"),
    [
        ("state = torch.tanh(net(state.clone()))", "state.pow(2).sum()", True),
        ("state = torch.tanh(net(torch.randn(1, 3)) + state).clone()", "state.pow(2).sum()", True),
        ("kept.append(net(torch.randn(1, 3)).tanh().clone())", "torch.cat(kept).pow(2).sum()", True),
        ("state = torch.tanh(net(state.t().contiguous().t()))", "state.pow(2).sum()", False),
        ("state = torch.tanh(net(state)); copied = state.detach().clone()", "state.pow(2).sum()", False),
    ],
)
def test_that_a_clone_keeps_the_graph_is_told_where_one_was_tried(
    tmp_path: Path, made: str, loss: str, told: bool
) -> None:
    seen = observe(tmp_path, HEAD + KEPT.format(made=made, loss=loss))
    assert seen.slugs[0] in ("carried-state", "stored-with-graph")
    sentence = "`clone()` at train.py:9 copies the numbers and keeps the graph"
    assert (sentence in seen.found[0].finding.because) is told
