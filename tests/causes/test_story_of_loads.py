"""Weights that are loaded between two forwards are told in the order in which it happened."""

from __future__ import annotations

from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
shared, policy, old = (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(3))


def train():
    action = policy(torch.randn(6, 3))
    policy.load_state_dict(shared.state_dict())
    before = old(torch.randn(6, 3))
    loss = (action - before).square().mean()
    {last}
    loss.backward()


train()
"""


def told(tmp_path, last: str):
    seen = observe(tmp_path, PROGRAM.format(last=last))
    assert seen.slugs == ["parameter-overwritten"], seen.result.stderr
    return seen.found[0].finding


def test_each_forward_and_each_load_stands_at_its_time(tmp_path):
    finding = told(tmp_path, "old.load_state_dict(policy.state_dict())")
    lines = [s.line for s in sorted(finding.spans, key=lambda s: s.when or (1 << 62, 0)) if s.label and s.when]
    assert [n for n in lines if n in (9, 10, 11, 13)] == [9, 10, 11, 13], finding.spans


def test_the_forward_of_the_named_parameter_comes_first(tmp_path):
    finding = told(tmp_path, "old.load_state_dict(policy.state_dict())")
    assert finding.title.startswith("`old.")
    forwards = [s.line for s in finding.spans if s.label == "this forward ran with the values from before"]
    assert forwards == [11, 9]


def test_the_other_network_alone(tmp_path):
    finding = told(tmp_path, "pass")
    assert finding.title.startswith("`policy.")
    assert [s.line for s in finding.spans if s.label == "this forward ran with the values from before"] == [9]
