"""Losses of one encoder whose heads step one by one, and programs that look like it and are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh())
tops = {"a": nn.Linear(6, 1), "b": nn.Linear(6, 1), "c": nn.Linear(6, 1)}
body_opt = torch.optim.Adam(body.parameters())
top_opts = {k: torch.optim.Adam(top.parameters()) for k, top in tops.items()}


"""

LOOP = """
for _ in range(3):
    z = body(torch.randn(4, 3))
    body_opt.zero_grad()
    for k, top in tops.items():
        loss = top(z).square().mean()
        top_opts[k].zero_grad()
        loss.backward()
        top_opts[k].step()
    body_opt.step()
"""
# Nothing tells before the failure for which head a call works: all is set to zero at the head of an iteration.
ZEROED_FIRST = """
def train(x):
    outs = {k: top(h) for h in [body(x)] for k, top in tops.items()}
    for k in outs:
        opt = top_opts[k]
        (outs[k].square().mean() / 3).backward()
        opt.step()
    body_opt.step()


for _ in range(3):
    for o in (body_opt, *top_opts.values()):
        o.zero_grad()
    train(torch.randn(4, 3))
"""
IN_A_ROW = """
for _ in range(3):
    z = body(torch.randn(4, 3))
    body_opt.zero_grad()
    top_opts["a"].zero_grad()
    top_opts["b"].zero_grad()
    loss_a = tops["a"](z).square().mean()
    loss_b = (tops["b"](z) - 1).square().mean()
    loss_a.backward()
    top_opts["a"].step()
    loss_b.backward()
    top_opts["b"].step()
    body_opt.step()
"""
# The body lies with one of the heads, is set to zero before both losses and steps behind both.
WITH_ONE_HEAD = """
body_opt = torch.optim.Adam([*body.parameters(), *tops["b"].parameters()])
del top_opts["b"]
for _ in range(3):
    z = body(torch.randn(4, 3))
    loss_a = tops["a"](z).square().mean()
    loss_b = (tops["b"](z) - 1).square().mean()
    top_opts["a"].zero_grad()
    body_opt.zero_grad()
    loss_a.backward()
    top_opts["a"].step()
    loss_b.backward()
    body_opt.step()
"""
# Here it is set to zero in between: the first loss is not to train it.
ZEROED_BETWEEN = WITH_ONE_HEAD.replace("    body_opt.zero_grad()\n", "").replace(
    "    loss_b.backward()", "    body_opt.zero_grad()\n    loss_b.backward()"
)
IN_A_HELPER = """
def learn(loss, opt):
    opt.zero_grad()
    loss.backward()
    opt.step()


for _ in range(3):
    z = body(torch.randn(4, 3))
    body_opt.zero_grad()
    learn(tops["a"](z).square().mean(), top_opts["a"])
    learn(tops["b"](z).square().mean(), top_opts["b"])
    body_opt.step()
"""

# The body's own loss comes after, with its own zero_grad: its features are constants for the tops.
OWN_LOSS = """
for _ in range(3):
    z = body(torch.randn(4, 3))
    for k, top in tops.items():
        loss = top(z).square().mean()
        top_opts[k].zero_grad()
        loss.backward()
        top_opts[k].step()
    body_opt.zero_grad()
    body(torch.randn(4, 3)).mean().backward()
    body_opt.step()
"""
# Several steps of one head on features that were computed once.
ONE_HEAD = """
z = body(torch.randn(4, 3))
body_opt.zero_grad()
for _ in range(3):
    loss = tops["a"](z).square().mean()
    top_opts["a"].zero_grad()
    loss.backward()
    top_opts["a"].step()
body_opt.step()
"""
# The body steps in every round: a sum would be another training.
BODY_STEPS = """
z = body(torch.randn(4, 3))
for k, top in tops.items():
    loss = top(z).square().mean()
    body_opt.zero_grad()
    top_opts[k].zero_grad()
    loss.backward()
    top_opts[k].step()
    body_opt.step()
"""
# A loss whose value would be another after the step: the second one goes through the first head.
THROUGH = """
for _ in range(3):
    z = body(torch.randn(4, 3))
    body_opt.zero_grad()
    for k in "ab":
        loss = (tops["a"](z) + tops[k](z)).square().mean()
        top_opts[k].zero_grad()
        loss.backward()
        top_opts[k].step()
    body_opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "code",
    [LOOP, ZEROED_FIRST, IN_A_ROW, WITH_ONE_HEAD],
    ids=["loop", "zeroed-first", "in-a-row", "with-one-head"],
)
def test_steps_of_heads_do_not_part_the_losses(code: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.slugs[0] == "shared-subgraph-losses"
    finding = seen.found[0].finding
    # What one optimizer holds with the one head may be meant as data for the other.
    assert finding.confidence == ("likely" if code is WITH_ONE_HEAD else "certain")
    assert "call `backward()` once" in finding.explanation
    assert "share the graph of `body.*`" in finding.explanation and "tops" not in finding.explanation
    kind, new = seen.patches()[0]
    assert kind == "merge_backward" and finding.remedies[0].safety == "unsafe"
    assert "step after it" in finding.remedies[0].note
    assert observe(tmp_path / "mended", new["train.py"]).mended


def test_where_no_function_sees_both_losses_no_impossible_sum_is_advised(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + IN_A_HELPER)
    assert seen.slugs[0] == "shared-subgraph-losses"
    assert "merge_backward" not in [kind for kind, _ in seen.patches()]
    assert "return the losses, add them" in seen.found[0].finding.explanation


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "code", [OWN_LOSS, ONE_HEAD, BODY_STEPS, THROUGH], ids=["own-loss", "one-head", "body-steps", "through"]
)
def test_other_steps_do(code: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.evidence is not None
    assert "merge_backward" not in [kind for kind, _ in seen.patches()], seen.slugs


def test_what_is_set_to_zero_in_between_is_no_business_of_the_first_loss(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + ZEROED_BETWEEN)
    assert seen.slugs[0] == "undetached-target"
    assert seen.found[0].finding.remedies[0].kind == "detach_expression"


CHAIN = """
last = nn.Linear(1, 2)
last_opt = torch.optim.Adam(last.parameters())
for _ in range(3):
    body_opt.zero_grad()
    z = body(torch.randn(4, 3))
    out = tops["a"](z)
    top_opts["a"].zero_grad()
    out.square().mean().backward(retain_graph=True)
    top_opts["a"].step()
    loss = last(out).square().mean()
    last_opt.zero_grad()
    loss.backward()
    last_opt.step()
    {then}
"""


def test_an_optimizer_that_steps_behind_both_is_worked_for_by_both(tmp_path: Path) -> None:
    seen = observe(tmp_path / "gathers", HEAD + CHAIN.format(then="body_opt.step()"))
    assert seen.slugs[0] == "optimizer-step-before-backward"
    assert not any(k.startswith("detach") for k, _ in seen.patches()[:1])
    seen = observe(tmp_path / "forgets", HEAD + CHAIN.format(then="pass"))
    assert seen.slugs[0] == "retain-graph-cover-up"
