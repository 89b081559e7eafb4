"""Nothing is called certain that the graph leaves open: what is a sum, what a loss means, how far a state goes."""

from __future__ import annotations

from pathlib import Path

from seen import Seen, observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

FITTED = """
pi, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam([*pi.parameters(), *critic.parameters()])
for _ in range(3):
    obs = torch.randn(6, 4)
    dist = torch.distributions.Categorical(logits=pi(obs))
    action = dist.sample()
    advantage = action.float() - critic(obs).squeeze(-1)
    opt.zero_grad()
    critic_loss = advantage.square().mean()
    critic_loss.backward()
    actor_loss = -(dist.log_prob(action) * advantage).mean()
    actor_loss.backward()
    opt.step()
"""

TWO_HEADS = """
trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
one, other = nn.Linear(8, 1), nn.Linear(8, 2)
opt = torch.optim.Adam([*trunk.parameters(), *one.parameters(), *other.parameters()])
for _ in range(3):
    h = trunk(torch.randn(6, 4))
    opt.zero_grad()
    first, second = one(h).square().mean(), other(h).abs().mean()
    first.backward()
    second.backward()
    opt.step()
"""

ONE_STEP = """
embed, block, read = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 1)
opt = torch.optim.Adam([*embed.parameters(), *block.parameters(), *read.parameters()])
for _ in range(3):
    h = embed(torch.randn(6, 4))
    opt.zero_grad()
    for _ in range(3):
        h = h + block(h)
        loss = read(h).square().mean()
        loss.backward()
    opt.step()
"""

EACH_ROUND = """
embed, block, read = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 1)
opt = torch.optim.Adam([*embed.parameters(), *block.parameters(), *read.parameters()])
h = embed(torch.randn(6, 4))
for i in range(6):
    h = h + block(h)
    loss = read(h).square().mean()
    loss.backward()
    if i % 3 == 2:
        opt.step()
        opt.zero_grad()
"""

POSITION = """
push = nn.Linear(1, 1)
opt = torch.optim.SGD(push.parameters(), lr=0.1)
position = torch.zeros(())
for _ in range(4):
    position = position + push(position.view(1, 1)).tanh().squeeze()
    loss = (position - 1).square()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PATH = """
class Sim:
    def __init__(self):
        self.force = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.path = torch.zeros(4, 5, 2)

    def rollout(self, start):
        self.path[0] = start
        for t in range(3):
            self.path[t + 1] = self.path[t] + self.force(self.path[t])
        return self.path[-1]


sim = Sim()
end = sim.rollout(torch.randn(5, 2))
end.square().mean().backward()
"""

PREVIOUS = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters())
answer = torch.zeros(3, 2)
for _ in range(3):
    old, answer = answer, net(torch.cat([torch.randn(3, 2), answer], 1))
    loss = (answer - old).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def told(tmp_path: Path, code: str) -> Seen:
    return observe(tmp_path, HEAD + code)


def test_whether_what_one_loss_fits_is_data_for_the_other_is_open(tmp_path):
    seen = told(tmp_path, FITTED)
    finding = seen.found[0].finding
    assert (seen.slugs[0], finding.confidence) == ("shared-subgraph-losses", "likely")
    assert "Where both are to train these parameters" in finding.explanation
    assert "detach `advantage` where this loss uses it" in [r.title for r in finding.remedies]


def test_two_heads_on_a_trunk_leave_nothing_open(tmp_path):
    seen = told(tmp_path, TWO_HEADS)
    finding = seen.found[0].finding
    assert (seen.slugs[0], finding.confidence) == ("shared-subgraph-losses", "certain")
    assert not [r for r in finding.remedies if "detach" in r.title]


def test_rounds_of_one_step_may_be_meant_as_one_graph(tmp_path):
    finding = told(tmp_path, ONE_STEP).found[0].finding
    assert finding.confidence == "likely"
    assert finding.remedies[0].safety == "safe"
    assert finding.remedies[0].title.startswith("call backward() once on the sum of the losses")


def test_a_state_that_goes_on_behind_the_step_is_carried(tmp_path):
    seen = told(tmp_path, EACH_ROUND)
    finding = seen.found[0].finding
    assert (seen.slugs[0], finding.confidence) == ("carried-state", "certain")
    assert finding.remedies[0].title.startswith("detach `h`")


def test_a_state_of_one_number_is_no_sum_of_losses(tmp_path):
    assert told(tmp_path, POSITION).slugs[0] == "carried-state"


def test_a_row_of_a_buffer_is_not_called_by_the_name_of_another_row(tmp_path):
    seen = told(tmp_path, PATH)
    assert seen.slugs[0] == "state-overwritten-in-place"
    assert "saves `sim.path` for" in seen.said and "saves `end" not in seen.said


def test_the_name_that_goes_on_to_the_next_round_is_detached(tmp_path):
    finding = told(tmp_path, PREVIOUS).found[0].finding
    assert finding.remedies[0].title.startswith("detach `answer` once each iteration")
