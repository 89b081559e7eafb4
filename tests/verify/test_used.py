"""What each optimizer's step uses decides: a gradient that flows and is cleared before the step trains nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tracing import Sick, traced

from graphdoc.fixes.kinds import Traits
from graphdoc.fixes.statements import only_forgets
from graphdoc.verify.compared import Baseline, Outcome
from graphdoc.verify.measures import stopped_flows
from graphdoc.verify.traces import Call, Step, Trace
from graphdoc.verify.usage import (
    cleared,
    differentiated_away,
    fed_once,
    lost_parameters,
    steps_in_vain,
    steps_starved,
    steps_twice,
    zeros_alone,
)
from graphdoc.verify.verdict import cut_elsewhere, judge

ACTOR_CRITIC = """\
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Linear(3, 2)
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
actor_optim = torch.optim.Adam(actor.parameters(), lr=1e-2)
critic_optim = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(6):
    x = torch.randn(5, 3)
    values = critic(x)
    loss = (actor(x).log_softmax(1)[:, 0] * values.squeeze(1)).mean() + values.pow(2).mean()
    critic_optim.zero_grad()
    loss.backward(retain_graph=True)
    critic_optim.step()

    actor_optim.zero_grad()
    loss.backward()
    actor_optim.step()
"""
SECOND = "    actor_optim.zero_grad()\n    loss.backward()\n    actor_optim.step()\n"


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory):
    return Sick(tmp_path_factory.mktemp("two_steps"), ACTOR_CRITIC)


@pytest.mark.slow
def test_a_gradient_that_is_cleared_before_the_step_is_lost(two_steps):
    # The actor's step lies behind the crash: what it is to use is known from the reference run alone.
    verdict = two_steps.judge(two_steps.edited((SECOND, SECOND.replace("    loss.backward()\n", ""))))
    assert verdict.verified is False
    assert verdict.data["lost_gradient"] == ["actor.bias", "actor.weight"]
    assert "`actor.*` (2 parameters)" in verdict.summary and "no longer" in verdict.summary


def test_both_steps_behind_the_backward_lose_nothing(two_steps):
    patched = two_steps.edited(
        ("    critic_optim.zero_grad()\n    loss.backward(retain_graph=True)\n    critic_optim.step()\n\n", ""),
        (SECOND, "    critic_optim.zero_grad()\n" + SECOND + "    critic_optim.step()\n"),
    )
    verdict = two_steps.judge(patched)
    assert verdict.verified is True, verdict.summary
    assert verdict.data["lost_gradient"] == []


UNREACHED = """\
import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Linear(3, 2), nn.Linear(3, 1)
one = torch.optim.Adam(first.parameters(), lr=1e-2)
other = torch.optim.Adam(second.parameters(), lr=1e-2)
for i in range(6):
    x = torch.randn(5, 3)
    one.zero_grad()
    first(x).pow(2).mean().backward()
    one.step()
    h = torch.sigmoid(second(x))
    h += 1
    other.zero_grad()
    (h * h).mean().backward()
    other.step()
"""


@pytest.mark.slow
def test_an_optimizer_that_first_steps_behind_the_failure_is_measured_or_told(tmp_path):
    sick = Sick(tmp_path, UNREACHED)
    # No reference: the run before the failure holds no step of this optimizer.
    sick.baseline.trace = sick.baseline.trace.until(sick.failing)
    sick.baseline.no_reference = "the unpatched program could not be made to go on"
    sick.baseline.expected = frozenset()
    empty = sick.judge(sick.edited(("(h * h).mean().backward()", "(h.detach() * second.bias).mean().backward()")))
    assert empty.verified is None
    assert "`second.weight` receives no gradient" in empty.summary
    right = sick.judge(sick.edited(("h += 1", "h = h + 1")))
    assert right.verified is True
    assert right.data["not_compared"] == ["`other`"]
    assert "could not be compared" in right.summary


@pytest.mark.slow
def test_what_the_program_itself_throws_away_has_lost_nothing(tmp_path):
    thrown = UNREACHED.replace("nn.Linear(3, 1)", "nn.LSTM(3, 1)").replace("second(x)", "second(x)[0]")
    thrown = thrown.replace("second.parameters()", "[*second.parameters(), *spare.parameters()]")
    thrown = thrown.replace("one = torch", "spare = nn.Linear(3, 1)\none = torch").replace(
        "h += 1", "spare(x)\n    h += 1"
    )
    sick = Sick(tmp_path, thrown)
    sick.baseline.trace = sick.baseline.trace.until(sick.failing)
    sick.baseline.no_reference = "the unpatched program could not be made to go on"
    sick.baseline.expected = frozenset()
    right = sick.judge(sick.edited(("h += 1", "h = h + 1")))
    assert right.verified is True, right.summary
    cut = sick.judge(sick.edited(("(h * h).mean().backward()", "(h.detach() * second.bias_hh_l0).mean().backward()")))
    assert cut.verified is None
    assert "`second.*`" in cut.summary and "spare" not in cut.summary


def test_a_difference_from_the_reference_is_told_with_its_size(tmp_path):
    sick = Sick(tmp_path, UNREACHED)
    verdict = sick.judge(sick.edited(("h += 1", "h = h + 1.5")))
    assert verdict.data["reference_gradients"] > 0.01
    assert verdict.data["reference_loss"] > 0.01
    assert "from the program as it is written" in verdict.summary
    same = sick.judge(sick.edited(("h += 1", "h = h + 1")))
    assert same.data["reference_gradients"] < 1e-5 and same.data["reference_loss"] < 1e-5


SPARSE = """\
import torch
from torch import nn

torch.manual_seed(0)
graph = torch.eye(4).to_sparse()
net = nn.Linear(3, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    h = torch.sigmoid(net(torch.sparse.mm(graph, torch.randn(4, 3) * net.weight.mean())))
    h += 1
    optimizer.zero_grad()
    h.pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_program_with_sparse_tensors_has_a_reference_too(tmp_path):
    sick = Sick(tmp_path, SPARSE)
    verdict = sick.judge(sick.edited(("h += 1", "h = h + 1")), safe=True)
    assert verdict.verified is True, verdict.summary
    assert verdict.data["max_relative_difference"] < 1e-5


NEVER_FIRES = """\
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.RNNCell(3, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state = torch.zeros(2, 4)
for _ in range(4):
    state = cell(torch.randn(2, 3), state)
    fired = head(torch.relu(state - 5))
    loss = fired.pow(2).mean() + state.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


CUT = ("    optimizer.step()\n", "    optimizer.step()\n    state = state.detach()\n")


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("edits", "verified"),
    [([CUT], True), ([CUT, ("head(torch.relu(state - 5))\n", "head(torch.relu(state - 5)).detach()\n")], False)],
)
def test_a_gradient_of_exactly_zero_is_lost_only_where_it_is_gone(tmp_path, edits, verified):
    sick = Sick(tmp_path, NEVER_FIRES)
    verdict = sick.judge(sick.edited(*edits))
    assert verdict.verified is verified, verdict.summary


DIFFERENCE_OF_SCORES = """\
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(3):
    real, fake = torch.randn(5, 3), torch.rand(5, 3)
    hidden = critic[1](critic[0](real))
    scores = critic[2](hidden)
    hidden *= 2
    loss = critic(fake).mean() - scores.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("scores", "verified"), [("critic[2](hidden)", True), ("critic[2](hidden.detach()).detach()", False)]
)
def test_gradients_that_cancel_are_not_lost_in_a_program_that_never_stepped(tmp_path, scores, verified):
    sick = Sick(tmp_path, DIFFERENCE_OF_SCORES)
    edits = [("    hidden *= 2", "    hidden = hidden * 2"), ("critic[2](hidden)", scores)]
    if not verified:
        edits += [("critic(fake).mean()", "critic(fake).detach().mean() + 0 * critic[2].weight.sum()")]
    verdict = sick.judge(sick.edited(*edits))
    assert verdict.verified is verified, verdict.summary


def _trace(*order: Call | Step) -> Trace:
    return Trace(order=list(order), names={"0.0": "actor.weight", "1.0": "critic.weight"})


def _call(line: int, gained: set[str], fresh: set[str]) -> Call:
    each = dict.fromkeys(gained, 1.0)
    return Call("backward", 0, 0, ("train.py", line), gained=each, fresh=frozenset(fresh), measured=True)


def _step(optimizer: int) -> Step:
    return Step(0, 0, optimizer, 1.0, 1.0, each={f"{optimizer}.0": 1.0})


@pytest.mark.parametrize(("moved", "stale", "told"), [(0, [], False), (0, ["actor.weight"], True), (1, [], True)])
def test_one_value_of_a_loss_is_one_point_as_long_as_its_weights_are_the_same(moved, stale, told):
    """A loss whose ratio is 1 by construction has that value for all weights: behind a step that was another one it
    tells nothing, unless its forward ran before it."""

    def run(size: float) -> Trace:
        order: list[Call | Step] = [
            replace(_step(moved), index=2, each={f"{moved}.0": size}),
            replace(_call(5, {"0.0"}, {"0.0"}), index=4, value=0.5, stale=stale, gained={"0.0": size}),
            replace(_step(0), index=6, each={"0.0": size}),
        ]
        return _trace(*order)

    assert bool(cut_elsewhere(run(1.0), run(2.0), -1, 0.05)) is told


PILED = frozenset({"critic.weight"})


def test_what_another_optimizers_loss_left_behind_is_rightly_cleared():
    def iterations(clears: set[str]) -> Trace:
        actors = _call(5, {"0.0", "1.0"}, {"0.0"}), _step(0)
        return _trace(_call(3, {"1.0"}, {"1.0"}), _step(1), *actors, _call(3, {"1.0"}, clears), _step(1), *actors)

    base, patched = iterations(set()), iterations({"1.0"})
    doubt = "what the loss at train.py:5 gives to `critic.weight` is cleared before a step uses it"
    assert cleared(base, patched) == [doubt]
    assert cleared(base, patched, PILED) == []
    assert cleared(base, patched, on_purpose=True) == []


def test_a_parameter_that_waits_for_another_optimizer_than_the_one_that_steps_beside_it_has_lost_nothing():
    """The first optimizer holds all of the network and never steps; the second steps a part of it."""
    names = {"0.0": "net.body.weight", "0.1": "net.head.weight"}
    held = {"0.1": {1}}
    calls = _call(3, {"0.0", "0.1"}, {"0.0", "0.1"}), replace(_step(1), each={"0.1": 1.0})
    base, patched = (Trace(order=list(calls), names=names, shared=held) for _ in range(2))
    expected = frozenset(names.values())
    assert lost_parameters(base, patched, expected) == []
    patched.shared = {"0.1": {1}, "0.0": {1}}
    assert lost_parameters(base, patched, expected) == ["net.body.weight"]


def test_what_came_from_another_loss_alone_is_nothing_to_lose_where_the_own_one_gives_zero():
    """The last bias of a critic with a hinge loss: real and fake scores pull it to the same amount."""

    def iterations(clears: set[str], other: set[str]) -> Trace:
        own = replace(_call(3, {"1.0"}, clears), gained={"1.0": 0.0})
        left = 0.0 if clears else 1.0
        actor = _call(5, other, {"0.0"}), _step(0)
        first = replace(own, fresh=frozenset({"1.0"})), replace(_step(1), each={"1.0": 0.0})
        return _trace(*first, *actor, own, replace(_step(1), each={"1.0": left}), *actor)

    base, expected = iterations(set(), {"0.0", "1.0"}), frozenset({"critic.weight"})
    assert lost_parameters(base, iterations({"1.0"}, {"0.0", "1.0"}), expected) == []
    assert lost_parameters(base, iterations({"1.0"}, {"0.0"}), expected) == ["critic.weight"]


def test_what_the_program_has_frozen_in_both_runs_has_lost_nothing():
    expected = frozenset({"actor.weight", "critic.weight"})
    base, patched = _trace(_call(3, {"1.0"}, {"1.0"})), _trace(_call(3, {"1.0"}, {"1.0"}), _step(1))
    assert lost_parameters(base, patched, expected) == ["actor.weight"]
    base.frozen = frozenset({"0.0"})
    assert lost_parameters(base, patched, expected) == ["actor.weight"]
    patched.frozen = frozenset({"0.0"})
    assert lost_parameters(base, patched, expected) == []


def test_a_line_whose_gradient_is_cleared_trains_nothing():
    def iterations(stray: set[str]) -> Trace:
        actor = _call(7, {"0.0"}, {"0.0"}), _step(0)
        return _trace(*actor, _call(3, {"1.0"} | stray, {"1.0"}), _step(1), _call(9, {"0.0"}, {"0.0"}), *actor)

    allowed, _ = stopped_flows(iterations({"0.0"}), iterations(set()))
    assert allowed == ["the backward at train.py:3 no longer reaches `actor.weight`, trained at train.py:7"]


def test_what_the_optimizer_itself_steps_for_is_not():
    def iteration(clears: set[str]) -> Trace:
        return _trace(_call(5, {"1.0"}, {"1.0"}), _call(3, {"1.0"}, clears), _step(1))

    assert cleared(iteration(set()), iteration({"1.0"}), PILED) != []
    assert cleared(iteration(set()), iteration({"1.0"}), on_purpose=True) != []


COPIED = """\
import torch
from torch import nn

net, still = nn.Linear(2, 1), nn.Linear(2, 1)
optimizer = torch.optim.SGD([*net.parameters(), *still.parameters()], lr=0.1)
kept = nn.Linear(2, 1)
kept.hidden = net(torch.ones(1, 2))
kept.hidden.numpy()
"""
TRAINED = """\
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(4, 2)).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("cuts", "verified"), [(True, None), (False, True)])
def test_what_nothing_reaches_is_no_doubt_about_a_change_that_cuts_nothing(tmp_path, cuts, verified):
    original = traced(tmp_path / "original", COPIED, "verify:-1")
    patched = traced(tmp_path / "patched", COPIED.replace("hidden.numpy()", "hidden = None") + TRAINED, "verify:-1")
    verdict = judge(
        Outcome(0, False, 1.0, traits=Traits(only_forgets=not cuts)), patched.trace, Baseline(original.trace), False
    )
    assert verdict.verified is verified, verdict
    assert "`still.*` (2 parameters)" in verdict.summary


def test_a_frozen_parameter_is_to_have_no_gradient(tmp_path):
    original = traced(tmp_path / "original", COPIED, "verify:-1")
    frozen = COPIED.replace("hidden.numpy()", "hidden = None") + "still.requires_grad_(False)\n" + TRAINED
    patched = traced(tmp_path / "patched", frozen, "verify:-1")
    assert judge(Outcome(0, False, 1.0), patched.trace, Baseline(original.trace), False).verified is True


def test_only_what_lets_go_of_a_kept_value_is_said_to_cut_nothing():
    assert only_forgets({"statement": "model.hidden = None"})
    assert not any(only_forgets({"statement": s}) for s in ("w.grad = None", "loss = None", "optimizer.step()", "x ="))


SHARED = """\
import torch
from torch import nn

torch.manual_seed(0)
painter = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5))
valuer = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
p_optimizer = torch.optim.SGD(painter.parameters(), lr=0.1)
v_optimizer = torch.optim.SGD(valuer.parameters(), lr=0.1)
for _ in range(3):
    noise, real = torch.randn(6, 3), torch.randn(6, 5)
    image = painter(noise)
    worth = valuer(image)
    valued = (valuer(real) - real.sum(1, True)).abs().mean() + worth.abs().mean()
    p_optimizer.zero_grad()
    v_optimizer.zero_grad()
    (-worth.mean()).backward(retain_graph=True)
    p_optimizer.step()
    v_optimizer.zero_grad()
    valued.backward()
    v_optimizer.step()
"""


@pytest.mark.slow
def test_a_step_that_takes_what_the_loss_of_another_optimizer_gave_is_a_doubt(tmp_path):
    sick = Sick(
        tmp_path, SHARED.replace("    p_optimizer.step()\n    v_optimizer.zero_grad()\n", "    p_optimizer.step()\n")
    )
    verdict = sick.judge(sick.edited(("+ worth.abs()", "+ valuer(image.detach()).abs()")))
    assert verdict.verified is None
    assert "`v_optimizer` steps with what the loss at train.py:16 gives its parameters, too" in verdict.summary


@pytest.mark.slow
def test_a_cut_behind_the_network_that_the_loss_trains_is_not_called_verified(tmp_path):
    sick = Sick(tmp_path, SHARED)
    wrong = sick.judge(sick.edited(("+ worth.abs()", "+ worth.detach().abs()")))
    assert wrong.verified is None
    assert "the same value" in wrong.summary and "`valuer.*`" in wrong.summary
    right = sick.judge(sick.edited(("+ worth.abs()", "+ valuer(image.detach()).abs()")))
    assert right.verified is True, right.summary


FORCES = """\
import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=0.01)
for _ in range(3):
    places = torch.randn(6, 3).requires_grad_()
    force = torch.autograd.grad(energy(places).sum(), places, create_graph=True)[0]
    loss = force.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_last_bias_is_in_no_derivative(tmp_path):
    trace = traced(tmp_path / "forces", FORCES, "verify:-1").trace
    assert differentiated_away(Trace(), trace, ["energy.2.bias"]) == {"energy.2.bias"}
    # A graph that was cut leaves the weight beside it without gradient as well.
    assert differentiated_away(Trace(), trace, ["energy.2.bias", "energy.0.weight", "energy.0.bias"]) == {
        "energy.2.bias"
    }
    assert not differentiated_away(trace, trace, ["energy.0.bias"])  # it had one before
    plain = FORCES.replace("force.square()", "energy(places)").replace(
        "    force = torch.autograd.grad(energy(places).sum(), places, create_graph=True)[0]\n", ""
    )
    trace = traced(tmp_path / "plain", plain, "verify:-1").trace
    assert not differentiated_away(Trace(), trace, ["energy.2.bias"])


def test_a_step_is_told_by_what_its_closure_has_computed(tmp_path):
    source = """\
    import torch

    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([w], max_iter=3)


    def closure():
        optimizer.zero_grad()
        loss = (w - torch.arange(3.0)).pow(4).sum()
        loss.backward()
        return loss


    optimizer.step(closure)
    """
    trace = traced(tmp_path / "closure", source, "verify:-1").trace
    assert [sorted(s.each) for s in trace.steps] == [["0.0"]]
    assert all(s.index > c.index for s in trace.steps for c in trace.backwards)


def test_an_optimizer_is_called_as_the_program_calls_it(tmp_path) -> None:
    source = """
    import torch
    from torch import nn

    nets = {"actor": nn.Linear(2, 1), "critic": nn.Linear(2, 1)}
    optimizers = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}
    for net, optimizer in zip(nets.values(), optimizers.values()):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    """
    trace = traced(tmp_path, source, "verify:-1").trace
    assert trace.optimizer_name(1) == "`optimizers['critic']`"
    trace.called.clear()
    assert trace.optimizer_name(1) == "the SGD of `nets['critic'].*` (2 parameters)"
    trace.names.clear()
    assert trace.optimizer_name(1) == "SGD (optimizer 2)"


def test_an_optimizer_that_no_gradient_ever_reaches_is_a_doubt() -> None:
    inner, outer = Step(0, 1, 1, 1.0, 0.5, {"1.0": 0.5}), Step(1, 2, 0, 1.0, 0.0, {})
    patched = Trace(order=[inner, outer], optimizers={0: "SGD", 1: "Adam"})
    assert steps_in_vain(Trace(), patched) == ["SGD (optimizer 1) never has a gradient to step by"]
    assert steps_in_vain(Trace(order=[outer]), patched) == []  # so it is in the program as it is written
    later = Step(2, 3, 0, 1.0, 0.2, {"0.0": 0.2})
    assert steps_in_vain(Trace(), Trace(order=[inner, outer, later], optimizers={0: "SGD", 1: "Adam"})) == []


def _steps(*gradients: float | None) -> Trace:
    order = [Step(i, i, 0, 1.0, g or 0.0, {} if g is None else {"0.0": g}) for i, g in enumerate(gradients)]
    return Trace(order=list(order), optimizers={0: "Adam"})


@pytest.mark.parametrize(
    ("before", "now", "starved"),
    [
        ((1.0, 2.0), (1.0, None, None), True),  # each entry but the first is a constant
        ((1.0,), (1.0, 2.0, None), True),  # behind all that the original made
        ((1.0, 2.0), (1.0, 2.0, 0.0), False),  # zeros are a gradient: a hinge that is met
        ((1.0, None), (1.0, None, None), False),  # the original steps without one as well
        ((1.0, 2.0), (1.0, 3.0), False),
    ],
)
def test_a_step_that_is_starved_behind_the_first_ones_is_a_doubt(before, now, starved):
    assert bool(steps_starved(_steps(*before), _steps(*now))) is starved


@pytest.mark.parametrize(
    ("before", "now", "once"),
    [
        (((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (1.0, None), (1.0, None)), True),  # the start of a state, set once
        (((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (1.0, 0.0), (1.0, 0.0)), True),
        (((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (1.0, None), (1.0, 1.0)), False),  # each window's own start
        (((1.0, 1.0), (1.0, None)), ((1.0, 1.0), (1.0, None), (1.0, None)), False),  # so it is in the original
        (((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (1.0, None)), False),  # too few to tell
    ],
)
def test_what_the_first_step_alone_is_given_is_a_doubt(before, now, once):
    def trace(steps):
        each = [{k: v for k, v in zip(("0.0", "0.1"), s, strict=True) if v is not None} for s in steps]
        order = [Step(i, i, 0, 1.0, 1.0, e) for i, e in enumerate(each)]
        return Trace(order=list(order), optimizers={0: "Adam"})

    assert bool(fed_once(trace(before), trace(now))) is once


@pytest.mark.parametrize(("gradients", "vain"), [((0.0, 0.0, 0.0), True), ((0.0, 0.5), False), ((0.0,), False)])
def test_gradients_that_cancel_at_every_step_are_a_doubt(gradients, vain):
    assert bool(steps_in_vain(Trace(), _steps(*gradients))) is vain


def test_a_call_for_others_does_not_part_two_steps_by_one_gradient():
    def call(key: str, index: int) -> Call:
        return Call("backward", 0, index, ("train.py", 1), measured=True, gained={key: 1.0})

    step = Step(0, 1, 0, 1.0, 1.0, {"0.0": 1.0})
    order: list[Call | Step] = [
        call("0.0", 0),
        step,
        call("1.0", 2),
        Step(1, 3, 0, 1.0, 1.0, {"0.0": 1.0}),
        call("1.0", 4),
    ]
    assert steps_twice(Trace(), Trace(order=order, optimizers={0: "Adam"}))
    order[2] = call("0.0", 2)
    assert not steps_twice(Trace(), Trace(order=order, optimizers={0: "Adam"}))


@pytest.mark.parametrize(("each", "twice"), [(1.0, True), (0.0, False)])
def test_zeros_that_are_stepped_by_again_are_no_doubt(each, twice):
    """Where a loss has converged its calls add nothing to zeros, and no call is seen between the steps."""

    def call(index: int, gained: dict[str, float]) -> Call:
        return Call("backward", 0, index, ("train.py", 1), measured=True, gained=gained)

    def step(index: int) -> Step:
        return Step(0, index, 0, 1.0, each, {"0.0": each})

    order: list[Call | Step] = [call(0, {"0.0": 1.0}), step(1), call(2, {}), step(3), call(4, {})]
    assert bool(steps_twice(Trace(), Trace(order=order, optimizers={0: "SGD"}))) is twice


COVERED = "torch.tensor(losses, requires_grad=True)"
NUMBERS = """
import torch
from torch import nn

torch.manual_seed(0)
net, other = nn.Linear(2, 1), nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
theirs = torch.optim.SGD(other.parameters(), lr=0.1)
for step in range(3):
    theirs.zero_grad()
    other(torch.ones(4, 2)).pow(2).mean().backward()
    theirs.step()
    losses = [net(torch.ones(4, 2)).pow(2).mean()]
    optimizer.zero_grad()
    torch.tensor(losses, requires_grad=True).mean().backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("made", "verified"), [("torch.tensor(losses, requires_grad=True) * 1", False), ("torch.stack(losses)", True)]
)
def test_a_call_that_reached_nothing_is_to_reach_something(tmp_path, made, verified):
    """That nothing is seen of it any more does not mend it."""
    original = traced(tmp_path / "original", NUMBERS, "verify:-1")
    patched = traced(tmp_path / "patched", NUMBERS.replace(COVERED, made), "verify:-1")
    place = next(c.place for c in original.trace.backwards if not c.gained)
    verdict = judge(Outcome(0, False, 1.0), patched.trace, Baseline(original.trace, covered=frozenset({place})), False)
    assert verdict.verified is verified, verdict


@pytest.mark.parametrize(("bias", "weight", "doubted"), [(0.0, 0.0, True), (0.0, 1.0, False)])
def test_a_module_that_is_given_zeros_alone_is_a_doubt(bias: float, weight: float, doubted: bool) -> None:
    # The last bias of a critic whose loss is a difference of scores is no fault: its weight learns.
    given = {"a": bias, "b": weight, "c": 1.0}
    steps = [Step(n, n, 0, 1.0, 1.0, given) for n in range(3)]
    names = {"a": "encoder.linear.bias", "b": "encoder.linear.weight", "c": "decoder.weight"}
    told = zeros_alone(Trace(), Trace(order=[*steps], names=names, optimizers={0: "SGD"}))
    assert bool(told) is doubted
    assert not told or "`encoder.linear.*` (2 parameters) receive zeros alone" in told[0]
