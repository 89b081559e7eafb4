"""Hand-made reports that the renderers are tested on: one for each thing that is hard to draw."""

from __future__ import annotations

import difflib
import re

from graphdoc.model import Diagnosis, Fix, Report, Role, Run, Span

RUN = Run(("train.py", "--seed", "1"), "3.11.7", "2.13.0", 1, 3.1278, 1)


def at(sources: dict[str, str], file: str, role: Role, needle: str, label: str, nth: int = 1) -> Span:
    """The span of the ``nth`` occurrence of ``needle``, as columns are counted in the contract."""
    text = sources[file]
    offset = -1
    for _ in range(nth):
        offset = text.index(needle, offset + 1)
    before, upto = text[:offset].split("\n"), text[: offset + len(needle)].split("\n")
    return Span(role, file, len(before), len(before[-1]) + 1, len(upto), len(upto[-1]) + 1, label)


def diff(sources: dict[str, str], file: str, *edits: tuple[str, str]) -> str:
    old = sources[file]
    new = old
    for before, after in edits:
        assert before in new
        new = new.replace(before, after, 1)
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{file}", f"b/{file}")
    return "".join(lines)


PPO_SOURCE = """\
import torch
from torch import nn, optim


class Agent:
    def __init__(self, env):
        self.env = env
        self.policy = Policy(env)
        self.state_value = Value(env)
        self.action_value = Value(env)
        self.q_opt = optim.Adam(self.action_value.parameters(), lr=3e-4)

    def rollout(self, steps):
        surrogates = []
        for step in range(steps):
            ratio, action = self.policy.ratio(self.state)
            v = self.state_value(self.state)
            q = self.action_value(self.state, action)
            advantage = q - v

            surrogates.append(clipped(ratio, advantage))
            q_loss = nn.functional.mse_loss(q, self.reward)
            self.q_opt.zero_grad()
            q_loss.backward(retain_graph=True)
            self.q_opt.step()

        loss = -torch.stack(surrogates).mean()
        loss.backward()
"""
PPO_SOURCES = {"agents/ppo.py": PPO_SOURCE}
_ppo = "agents/ppo.py"

PPO = Report(
    run=RUN,
    outcome="autograd-failure",
    exception={
        "type": "RuntimeError",
        "message": "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already been freed).",
    },
    diagnoses=(
        Diagnosis(
            code="GD103",
            cause="undetached-target",
            confidence="certain",
            title="the advantage in the policy's loss still carries the graphs of both value networks",
            explanation="`advantage` weighs the policy's loss, yet it is built from `q` and `v` with their graphs. "
            "The value losses have freed those graphs by the time that `loss.backward()` walks into them.",
            spans=(
                at(PPO_SOURCES, _ppo, "created", "self.action_value(self.state, action)", "`q` is made here"),
                at(PPO_SOURCES, _ppo, "cause", "q - v", "takes the graphs of `q` and `v` along"),
                at(PPO_SOURCES, _ppo, "consumed", "clipped(ratio, advantage)", "joins the policy's loss"),
                at(PPO_SOURCES, _ppo, "freed", "q_loss.backward(retain_graph=True)", "frees the graph of `q`, step 1"),
                at(PPO_SOURCES, _ppo, "failed", "loss.backward()", "needs it again"),
            ),
            facts=(
                "backward #1 and backward #41 both reach AddmmBackward0 at agents/ppo.py:18",
                "the freed nodes lead only to `action_value` (6 parameters), which `q_opt` owns",
            ),
            fixes=(
                Fix(
                    "detach",
                    "detach the advantage",
                    "unsafe",
                    diff(PPO_SOURCES, _ppo, ("q - v", "(q - v).detach()"), ("retain_graph=True", "")),
                    "the policy's loss no longer sends gradient into the value networks",
                    True,
                    {
                        "passes_crash": True,
                        "further_steps": 20,
                        "parameters_with_gradient": "12 of 12",
                        "largest_difference": 0.0,
                    },
                ),
                Fix(
                    "no-grad",
                    "compute the advantage under `torch.no_grad()`",
                    "unsafe",
                    diff(
                        PPO_SOURCES,
                        _ppo,
                        ("advantage = q - v", "with torch.no_grad():\n                advantage = q - v"),
                    ),
                    "the same gradients as with the first",
                    False,
                ),
                Fix("merge", "one backward for all three losses", "display", "", "all networks learn from all losses"),
                Fix(
                    "weigh",
                    "bound the advantage",
                    "placeholders",
                    diff(PPO_SOURCES, _ppo, ("advantage = q - v", "advantage = (q - v).detach().clamp(-MOST, MOST)")),
                    "no single step can change the policy by much",
                    placeholders={"MOST": "the largest advantage that counts, `0.5` say"},
                ),
            ),
        ),
    ),
    notes=("ranks 1 to 3 only waited for rank 0",),
    sources=PPO_SOURCES,
)

FILES_SOURCES = {
    "train.py": """\
from model import Encoder

model = Encoder()
for batch in loader():
    optimizer.zero_grad()
    loss = model(batch).square().mean() + model.regularizer(
        batch,
        weight=0.1,
    )
    loss.backward()
    optimizer.step()
""",
    "src/model.py": """\
import torch
from torch import nn


class Encoder(nn.Module):
    def forward(self, x):
        h = self.first(x) if self.training else self.first(x.detach()).detach() if self.frozen else self.reference(x).clone()
        y = torch.sigmoid(h); y += self.bias; return y
""",  # noqa: E501
}
_train, _model = "train.py", "src/model.py"

FILES = Report(
    run=RUN,
    outcome="autograd-failure",
    exception={"type": "RuntimeError", "message": "one of the variables needed for gradient computation has been …"},
    diagnoses=(
        Diagnosis(
            code="GD203",
            cause="inplace-on-saved-activation",
            confidence="likely",
            title="`y += self.bias` overwrites the output that sigmoid needs for its own backward",
            explanation="Sigmoid computes its gradient from its output. `+=` has changed that output in place.",
            spans=(
                at(FILES_SOURCES, _model, "related", "self.reference(x).clone()", "the branch that ran"),
                at(FILES_SOURCES, _model, "created", "torch.sigmoid(h)", "saves its output `y`"),
                at(FILES_SOURCES, _model, "mutated", "y += self.bias", "version 0 -> 1"),
                at(
                    FILES_SOURCES,
                    _model,
                    "cause",
                    "y += self.bias",
                    "writes over the saved output; write `y = y + self.bias`",
                ),
                at(
                    FILES_SOURCES,
                    _train,
                    "consumed",
                    "model.regularizer(\n        batch,\n        weight=0.1,\n    )",
                    "a second use",
                ),
                at(FILES_SOURCES, _train, "failed", "loss.backward()", ""),
            ),
            facts=("SigmoidBackward0 saved `result` at version 0, it is now at version 1",),
            fixes=(
                Fix(
                    "out-of-place",
                    "write out of place",
                    "safe",
                    diff(FILES_SOURCES, _model, ("y += self.bias", "y = y + self.bias"))
                    + diff(FILES_SOURCES, _train, ("model = Encoder()\n", "model = Encoder()\nmodel.train()\n")),
                    verified=None,
                ),
            ),
        ),
        Diagnosis(
            code="GD701",
            cause="parameters-never-reached",
            confidence="possible",
            title="`model.head` receives no gradient",
            explanation="No backward of this run has reached it.",
            spans=(Span("cause", "train.py", 3, 1, 3, 1, ""),),
        ),
    ),
    sources=FILES_SOURCES,
)

SOURCELESS = Report(
    run=Run(),
    outcome="autograd-failure",
    exception={"type": "RuntimeError", "message": "Trying to backward through the graph a second time"},
    diagnoses=(
        Diagnosis(
            code="GD101",
            cause="carried-state",
            confidence="possible",
            title="a state kept from the iteration before brings its graph along",
            explanation="The message alone allows this diagnosis; a run under `graphdoc run` tells which tensor it is.",
            spans=(
                Span("failed", "train.py", 130, 5, 130, 20, "the backward that failed"),
                Span("cause", "train.py", 9, 9, 9, 30, ""),
                Span("related", "/opt/lib/rnn.py", 77, 1, 79, 4, "called from here"),
            ),
        ),
    ),
    notes=("the log ends in the middle of a traceback", "two of the log's failures are alike and told once"),
)

_ARGS = "".join(f"    a{i},\n" for i in range(12))
NASTY_SOURCES = {
    "na sty,100%:\x1b[31m.py": (
        "\tloss = 模型(输入) + 'é👩\u200d👧' + f(x)\t# \x1b[2J\u202egnp\x07\n"
        "::error::gotcha = net(x)  # ##[error] %0A\n"
        + "total = "
        + " + ".join(f"term_{i}(x)" for i in range(60))
        + "\n"
        "backward(\n" + _ARGS + "); x = 1"
    )
}
_nasty = next(iter(NASTY_SOURCES))

NASTY = Report(
    run=RUN,
    outcome="completed",
    diagnoses=(
        Diagnosis(
            code="GD999",
            cause="nasty",
            confidence="certain",
            title="\x1b[31mred\x1b[0m 100% of <b>loss</b>\n::error::title, `a|b` _x_ and [link](http://x)",
            explanation="First.\r\n::error::second\x07 line. "
            + "word " * 22
            + "::warning::x " * 12
            + "<script>alert(1)</script>",
            spans=(
                at(NASTY_SOURCES, _nasty, "created", "模型(输入)", "宽的 label \x1b[5m"),
                at(NASTY_SOURCES, _nasty, "consumed", "'é👩\u200d👧'", "joined emoji and\ta tab"),
                at(NASTY_SOURCES, _nasty, "cause", "f(x)", "the end\n::error::label"),
                at(NASTY_SOURCES, _nasty, "mutated", "net(x)", "100%"),
                at(
                    NASTY_SOURCES, _nasty, "freed", "term_40(x)", "far to the right; " + "a label that has to wrap " * 4
                ),
                at(NASTY_SOURCES, _nasty, "failed", "backward(\n" + _ARGS + ")", "a long one"),
                Span("related", _nasty, 900, 4, 901, 2, "no such line"),
                Span("related", _nasty, 2, 400, 2, 300, "no such column"),
            ),
            facts=("fact\x9b31m with\nnewline", ""),
            fixes=(
                Fix(
                    "nasty",
                    "fix `it`\n::error::fix",
                    "display",
                    "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-\ta\x1b[0m = 1\n+\ta = '```'\n",
                    verification={"summary": ["ran\x1b[0m 3 steps", "100% equal"], "x": 1},
                ),
            ),
        ),
    ),
    notes=("note\x1b]0;title\x07 with ::error:: and <img src=x>",),
    sources=NASTY_SOURCES,
)

QUIET = Report(run=RUN, outcome="completed")

REPORTS = {"ppo": PPO, "files": FILES, "sourceless": SOURCELESS, "nasty": NASTY}


def strip_ansi(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
