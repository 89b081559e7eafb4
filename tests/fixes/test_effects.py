"""No statement changes places with what it acts upon, and nothing is detached that may be a plain number."""

from __future__ import annotations

import re

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

META = """\
«metaopt.step()»
for x, y in data:
    opt.zero_grad()
    err = loss(model(x), y)
    «err.backward()»
    opt.step()
"""


def test_a_bare_call_is_no_value_that_can_be_computed_again() -> None:
    with pytest.raises(CannotFix, match="computes no value"):
        fixed("move_into_loop", META, loop="@1")


@pytest.mark.parametrize(
    ("sick", "why"),
    [
        (
            "y = net(x)\n«opt.step()»\nopt.zero_grad()\nz = y + 1\n«z.backward()»\n",
            "a step or a `zero_grad()` in between",
        ),
        ("«scale = net.weight.max()»\nw = scale * 2\n«loss.backward()»\n", "scale would have another value"),
        ("«total += scale»\nscale = 2\n«loss.backward()»\n", "scale would have another value"),
        ("for x in xs:\n    «opt.step()»\n    if x: break\n    «loss.backward()»\n", "not every way"),
    ],
)
def test_a_statement_is_not_moved_across_what_it_reads_or_writes(sick: str, why: str) -> None:
    with pytest.raises(CannotFix, match=re.escape(why)):
        fixed("move_statement", sick, after="@1")


def test_a_step_goes_behind_the_backward_call_that_it_came_before() -> None:
    text = fixed("move_statement", "a.backward()\n«opt.step()»\n«b.backward()»\n", after="@1")
    assert text == "a.backward()\nb.backward()\nopt.step()\n"


@pytest.mark.parametrize(
    "between",
    [
        "for x in xs:\n    if x: break",
        "def told(opt):\n    return opt.state",
        "seen.append(loss)",
    ],
)
def test_a_step_moves_past_what_ends_a_loop_or_a_function_of_its_own(between: str) -> None:
    text = fixed("move_statement", f"«opt.step()»\n{between}\n«b.backward()»\n", after="@1")
    assert text.endswith("b.backward()\nopt.step()\n")


BETA = """\
import torch
def train(net, optimizer, beta):
    for _ in range(3):
        gap = net(torch.ones(1)).mean() - 0.5
        «beta = max(0, beta + 0.1 * gap)»
        (gap * beta).backward()
        optimizer.step()
"""


def test_what_may_be_a_number_is_detached_inside() -> None:
    text = fixed("detach_assigned", BETA, targets=["beta"])
    assert "beta = max(0, (beta + 0.1 * gap).detach())" in text
    chosen = "«beta = gap if gap > 0 else 0.0»\n"
    assert fixed("detach_assigned", chosen, targets=["beta"]) == "beta = gap.detach() if gap > 0 else 0.0\n"


def test_behind_the_step_it_is_detached_where_it_is_a_tensor() -> None:
    marked = BETA.replace("«", "").replace("»", "").replace("optimizer.step()", "«optimizer.step()»")
    text = fixed("detach_after", marked, "after", paths=["beta"])
    assert "        if torch.is_tensor(beta): beta = beta.detach()\n" in text
    plain = marked.replace("max(0, beta + 0.1 * gap)", "beta + 0.1 * gap")
    assert "        beta = beta.detach()\n" in fixed("detach_after", plain, "after", paths=["beta"])
