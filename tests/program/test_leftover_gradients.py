"""What another optimizer's loss has left for a step, and the remedies that clear it first."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.diagnose import findings_for
from graphdoc.fixes.kinds import build, traits_of
from graphdoc.program.observed import leftovers
from graphdoc.source.module import Source

HEAD = """
coder = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))
judge = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
coding = torch.optim.SGD(coder.parameters(), lr=0.1)
judging = torch.optim.SGD(judge.parameters(), lr=0.1)
"""
LOOP = """
for _ in range(3):
    coding.zero_grad()
    judging.zero_grad()
    x = torch.randn(5, 4)
    made = coder(x)
    score = judge(made)
    coder_loss = (made - x).pow(2).mean() - score.mean()
    judge_loss = score.mean() - judge(x).mean()
    coder_loss.backward(retain_graph=True)
    coding.step()
    judge_loss.backward()
    judging.step()
"""


def test_a_step_that_would_take_another_losss_gradient_too_is_cleared_first(tmp_path: Path) -> None:
    program = asked(tmp_path, HEAD + LOOP)
    (left,) = leftovers(program)
    assert left.optimizer == next(o.id for o in program.optimizers if o.name == "judging")
    found, _ = findings_for(program.evidence)
    plain, first = found[0].finding.remedies[:2]
    assert not plain.open and first.title.startswith(plain.title)
    assert first.kind == "several" and traits_of(first.kind, first.args).clears and first.safety == "unsafe"
    assert "`judging.zero_grad()`" in first.title
    assert first.open == "whether `judging` is to learn from the loss at train.py:19 as well, no run tells"
    (mended,) = build(first.kind, {f: Source(f, t) for f, t in program.sources.items()}, first.args).values()
    assert "    judging.zero_grad()\n    judge_loss.backward(" in mended
    assert not any(traits_of(r.kind, r.args).clears for r in found[0].finding.remedies if not r.open)


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("    judge_loss.backward()", "    judging.zero_grad()\n    judge_loss.backward()"),
        ("    judge_loss.backward()", "    judge.zero_grad()\n    judge_loss.backward()"),
        # Part of the sum is of a loss of its own: it is meant to add up.
        ("    made = coder(x)", "    judge(x).mean().backward()\n    made = coder(x)"),
        # The earlier loss does not reach what steps behind the failure.
        (" - score.mean()", ""),
    ],
    ids=["cleared", "cleared by the module", "adds up", "does not reach it"],
)
def test_a_step_that_takes_what_is_its_own_is_left_alone(tmp_path: Path, was: str, now: str) -> None:
    program = asked(tmp_path, HEAD + LOOP.replace(was, now))
    assert leftovers(program) == ()
    found, _ = findings_for(program.evidence)
    assert found and not any(traits_of(r.kind, r.args).clears for f in found for r in f.finding.remedies)


def test_a_loss_that_is_cut_off_itself_leaves_nothing(tmp_path: Path) -> None:
    """The first loss takes what the second trains: detached there, it reaches it no more."""
    code = (
        LOOP[: LOOP.index("    coder_loss =")]
        + """
    (judge(x).mean() - score.mean()).backward()
    judging.step()
    score.mean().neg().backward()
    coding.step()
"""
    )
    program = asked(tmp_path, HEAD + code.replace("judging.step()", "judging.step()", 1))
    found, _ = findings_for(program.evidence)
    assert found
    cut = [r for r in found[0].finding.remedies if "earlier loss" in r.title]
    assert all(not traits_of(r.kind, r.args).clears for r in cut)


def test_a_step_moved_behind_the_call_keeps_its_own_gradient(tmp_path: Path) -> None:
    """The later optimizer holds the coder, too: clearing its gradients would take those of the moved step."""
    code = HEAD.replace("(judge.parameters()", "([*judge.parameters(), *coder.parameters()]")
    program = asked(tmp_path, code + LOOP)
    assert leftovers(program)
    found, _ = findings_for(program.evidence)
    cleared = [r for r in found[0].finding.remedies if traits_of(r.kind, r.args).clears]
    assert not any(part["kind"] == "steps_last" for r in cleared for part in r.args["edits"])
