"""A trial holds only where losses and gradients are finite."""

from __future__ import annotations

import pytest
from tracing import traced

from graphdoc.fixes.kinds import Traits
from graphdoc.verify.compared import Baseline, Outcome
from graphdoc.verify.verdict import changed_first_call, judge

SHARES = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 6, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(5, 8, 4):
    x[0] = 0
    share = model(x).relu()
    share = share / share.sum(1, keepdim=True)
    loss = -share.log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DIVISOR, LOG = ("keepdim=True)", "keepdim=True).clamp_min(1e-3)"), ("share.log()", "share.clamp_min(1e-3).log()")


def verdict_on(tmp_path, program, *edits, unfinite=True):
    text = program
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    original = traced(tmp_path / "original", program, "verify:-1")
    patched = traced(tmp_path / "patched", text, "verify:-1")
    baseline = Baseline(original.trace, gone="what was found is gone", sound=False, unfinite=unfinite)
    return judge(Outcome(0, False, 1.0), patched.trace, baseline, False)


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("edits", "verified", "told"),
    [
        ((DIVISOR,), False, "the loss at train.py:13 is inf"),
        ((LOG,), False, "the loss at train.py:13 is nan"),
        ((DIVISOR, LOG), True, "every parameter of its optimizers receives gradient"),
        ((DIVISOR, LOG, ("-share", "-0 * share")), False, "no later step has a gradient other than zero"),
    ],
    ids=["log is left", "division is left", "both bounded", "zeros alone"],
)
def test_a_patch_for_nan_holds_where_every_loss_is_finite_and_trains(tmp_path, edits, verified, told):
    verdict = verdict_on(tmp_path, SHARES, *edits)
    assert verdict.verified is verified and told in verdict.summary, verdict.summary


def test_a_loss_that_is_finite_may_have_gradients_that_are_not(tmp_path):
    edits = (DIVISOR, ("-share.log().mean()", "share.sqrt().mean()"))
    verdict = verdict_on(tmp_path, SHARES, *edits)
    assert verdict.verified is False and "`optimizer` steps by gradients of" in verdict.summary
    beside = verdict_on(
        tmp_path,
        SHARES.replace("-share.log()", "share.exp()"),
        ("share.exp()", "share.sqrt()"),
        *edits[:1],
        unfinite=False,
    )
    assert beside.verified is None


SCALED = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=FUSED)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126)
for _ in range(20):
    loss = (model(torch.randn(5, 4)) * 9 / 0).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("fused", ["False", "True"])
def test_what_a_scaler_leaves_out_has_been_dealt_with(tmp_path, fused):
    verdict = verdict_on(tmp_path, SCALED.replace("FUSED", fused), (" / 0", ""))
    assert verdict.verified is True, verdict.summary


def test_a_parameter_that_had_nan_and_gets_zeros_alone_is_a_doubt(tmp_path):
    program = SHARES.replace("bias=False", "bias=True").replace("model(x).relu()", "(model(x) - model.bias).relu()")
    verdict = verdict_on(tmp_path, program, DIVISOR, LOG)
    assert verdict.verified is None and "`model.bias` receives zeros alone" in verdict.summary


CHOSEN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, chosen in zip(torch.randn(5, 8, 4), torch.tensor([2, 0, 3, 1, 2])):
    valid = (torch.arange(8) < chosen).float()
    loss = (model(x).square()[:, 0] * valid).sum() / valid.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_step_that_had_nan_may_have_zeros(tmp_path):
    """Nothing of this batch is chosen: the right gradient is zero."""
    verdict = verdict_on(tmp_path, CHOSEN, ("valid.sum()", "valid.sum().clamp_min(1)"))
    assert verdict.verified is True, verdict.summary


CLOSED_GATE = """\
import torch
from torch import nn

torch.manual_seed(0)
gate, model = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*gate.parameters(), *model.parameters()], eps=0.0)
for x in torch.randn(6, 8, 4):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean() + torch.relu(gate(x) - 100).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
"""The gate never opens, so its gradient is zero, until 0 / 0 in Adam's first step has made its weight nan: of a nan
`relu()` passes the gradient on."""
EPS = ("eps=0.0", "eps=1e-8")


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("edits", "verified", "told"),
    [
        ((EPS,), True, "still gets one"),
        ((EPS, ("(model(x)", "(model(x).detach() + model.bias")), False, "`model.weight` no longer receives"),
    ],
    ids=["eps", "and a cut"],
)
def test_a_gradient_that_comes_from_nan_is_nothing_to_lose(tmp_path, edits, verified, told):
    verdict = verdict_on(tmp_path, CLOSED_GATE, *edits)
    assert (verdict.verified is True) is verified and told in verdict.summary, verdict.summary


NEAR_ZERO = """\
import torch

weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for share in (0.5, 1e-9, 0.25, 0.0, 0.5):
    loss = -(torch.tensor([share, 0.5]) * weight).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("bound", "verified"), [("1e-12", True), ("1e-7", None)])
def test_a_bound_leaves_alone_what_was_finite(tmp_path, bound, verified):
    bounded = NEAR_ZERO.replace(".log()", f".clamp_min({bound}).log()")
    original = traced(tmp_path / "original", NEAR_ZERO, "verify:-1")
    patched = traced(tmp_path / "patched", bounded, "verify:-1")
    baseline = Baseline(original.trace, gone="what was found is gone", sound=False, unfinite=True)
    verdict = judge(Outcome(0, False, 1.0, traits=Traits(keeps_finite=True)), patched.trace, baseline, False)
    assert verdict.verified is verified, verdict.summary
    assert verified or "step 2 of `optimizer`, where all was finite, is by other gradients" in verdict.summary


GAPS = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(torch.randn(6, 8, 4)):
    other = torch.randn(8, 4)
    if step == 3:
        other[0] = x[0]
    gap = (model(x) - model(other)).square().sum(1)
    loss = (9 - gap.sqrt()).relu().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_gradient_that_was_nan_is_no_reference_where_the_loss_stays_the_same(tmp_path):
    bound = ("gap.sqrt()", "gap.clamp_min(1e-12).sqrt()")
    bounded = verdict_on(tmp_path / "bounded", GAPS, bound)
    assert bounded.verified is True, bounded.summary
    cut = verdict_on(tmp_path / "cut", GAPS, bound, ("model(other)", "model(other).detach()"))
    assert cut.verified is None and "gives other gradients to `model.weight`" in cut.summary


SHARES_OF_A_MASK = """\
import torch
from torch import nn

torch.manual_seed(0)
scale, shift = nn.Linear(1, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*scale.parameters(), *shift.parameters()], lr=0.1)
for x in torch.randn(6, 8, 4):
    height = scale(x.abs().sum(1, keepdim=True)) + torch.tensor([200.0] + [0.0] * 7)[:, None]
    weight = torch.where(height < 50, height.exp(), 0.0)
    loss = (weight - 1).square().mean() + shift(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.multinomial(scale(torch.ones(3, 1)).squeeze(1).exp(), 1)
"""
"""The first step's nan ends in an ordinary exception."""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ((), ""),
        ((("shift(x)", "2 * shift(x)"),), "the first backward, at train.py:12, worked before"),
    ],
    ids=["bounded", "and another gradient"],
)
def test_a_first_call_that_gave_nan_had_not_worked(tmp_path, edits, told):
    edits = (("height.exp()", "height.clamp_max(80.0).exp()"), *edits)
    text = SHARES_OF_A_MASK
    for old, new in edits:
        text = text.replace(old, new)
    original = traced(tmp_path / "original", SHARES_OF_A_MASK, "verify:-1").trace
    patched = traced(tmp_path / "patched", text, "verify:-1").trace
    patched.rekey(original)
    assert told in "".join(changed_first_call(original, patched, -1, 0.01))
    assert bool(told) is bool(changed_first_call(original, patched, -1, 0.01))
