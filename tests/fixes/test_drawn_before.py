"""What a forward has drawn is not drawn once more for a loss that is about what became of the first draw."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

PROGRAM = """\
def act(obs):
    dist = Categorical(motor(body(obs)))
    action = dist.{inside}()
    return action, dist.log_prob(action)

for step in range(8):
    «z = body(obs)»
    {forward}
    board[{taken}] = 1
    next_obs, reward = env.move(board)
    recon = (z - obs).square().mean()
    opt_body.zero_grad()
    recon.backward(retain_graph=True)
    «opt_body.step()»
    loss = -{logp} * {weight}
    opt_motor.zero_grad()
    «loss.backward()»
    opt_motor.step()
"""


def again(forward: str, logp: str, weight: str = "reward", inside: str = "sample") -> list[str]:
    """The statements that run again behind the step."""
    taken = "action.item()" if "action" in forward else "0"
    text = PROGRAM.format(forward=forward.replace("\n", "\n    "), logp=logp, weight=weight, inside=inside, taken=taken)
    lines = fixed("recompute_after", text, None, places=["@0"], after="@1", backward="@2").splitlines()
    at = next(i for i, line in enumerate(lines) if "opt_body.step()" in line)
    end = next(i for i, line in enumerate(lines) if line.strip().startswith("loss = "))
    return [line.strip() for line in lines[at + 1 : end]]


DIST = "dist = Categorical(motor(z))\naction = dist.sample()"


def test_an_action_that_was_rewarded_stays_and_its_probability_is_computed_again() -> None:
    assert again(DIST, "dist.log_prob(action)") == ["z = body(obs)", "dist = Categorical(motor(z))"]


def test_a_sample_of_which_nothing_else_was_made_for_this_loss_is_drawn_with_the_rest() -> None:
    assert again(DIST, "dist.log_prob(action)", "1.0")[-1] == "action = dist.sample()"


@pytest.mark.parametrize(
    ("forward", "logp", "weight"),
    [
        ("dist = Normal(motor(z), 1)\naction = dist.rsample()", "dist.log_prob(action)", "reward"),
        ("action, logp = act(z)", "logp", "reward"),
        ("dist = Categorical(motor(z))\ngain = env.step(z)\nboard[0] = gain", "dist.probs", "gain"),
    ],
    ids=["with its graph", "inside of a function", "a step of the environment"],
)
def test_what_cannot_be_told_apart_from_the_first_draw_is_refused(forward: str, logp: str, weight: str) -> None:
    with pytest.raises(CannotFix, match=r"draw another one than the loss is about|run a second time"):
        again(forward, logp, weight)
