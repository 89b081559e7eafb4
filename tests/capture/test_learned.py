"""Which steps are recorded with ``--capture learned``, and what is left of the evidence where one was not."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphdoc.capture.events.learned import ALIKE, CLOSES, FIRST, OPENS, Learned
from graphdoc.capture.places import stacks
from graphdoc.capture.process.quiet import UsersView
from graphdoc.evidence import THINNED, Evidence, Frame, Node, Raised, Sign
from graphdoc.second_run import as_told, full_mode, needs_record


@pytest.fixture
def view() -> Iterator[UsersView]:
    undo = stacks.stand_in(torch)
    view = UsersView(torch)
    yield view
    view.undo()
    undo()


def is_recorded() -> bool:
    node: Any = torch.zeros(1, requires_grad=True).exp().grad_fn
    return "traceback_" in node.metadata


class Steps:
    """A program of one optimizer or more, each of which steps when it is told to."""

    def __init__(self, view: UsersView) -> None:
        self.witness = SimpleNamespace(anomaly=view, looking=False)
        self.learned = Learned(self.witness)  # type: ignore[arg-type]
        self.seen: dict[int, Any] = {}

    def __call__(self, count: int, optimizer: int = 0) -> list[bool]:
        """Whether each of the next steps is recorded."""
        seen = self.seen.setdefault(optimizer, SimpleNamespace(id=optimizer, steps=0))
        recorded = []
        for _ in range(count):
            recorded.append(is_recorded())
            seen.steps += 1
            self.learned.stepped(seen)
        return recorded


def test_steps_like_the_last_ones_are_not_recorded(view: UsersView) -> None:
    """From the thirtieth on, but those before the audit looks again."""
    recorded = [number for number, known in enumerate(Steps(view)(390), 1) if known]
    assert recorded == [*range(1, FIRST + 1), *range(OPENS + 1, CLOSES + 1)]
    assert FIRST < 30


def test_a_new_call_is_recorded_and_the_steps_after_it(view: UsersView) -> None:
    steps = Steps(view)
    assert not steps(FIRST + 6)[-1]
    steps.learned.met()
    assert steps(ALIKE + 2) == [True] * ALIKE + [False] * 2
    assert steps(2, optimizer=1) == [False, True]
    assert steps.learned.since == FIRST


def test_what_the_audit_is_about_to_look_at_is_recorded(view: UsersView) -> None:
    steps = Steps(view)
    steps.witness.looking = True
    assert all(steps(FIRST + 6))
    steps.witness.looking = False
    assert steps(2) == [True, False]
    assert steps.learned.since == FIRST + 7


def test_the_users_own_anomaly_mode_stays(view: UsersView) -> None:
    steps = Steps(view)
    steps(FIRST + 1)
    assert not is_recorded()
    assert not torch.is_anomaly_enabled()
    with torch.autograd.set_detect_anomaly(True):
        assert is_recorded()
        steps.learned.met()
        assert torch.is_anomaly_enabled()
    assert is_recorded()
    assert not torch.is_anomaly_enabled()


def test_again_does_not_record_what_is_left_out(view: UsersView) -> None:
    steps = Steps(view)
    steps(FIRST + 1)
    view.again()
    assert not is_recorded()


MESSAGE = "Trying to backward through the graph a second time"


@pytest.mark.parametrize("thinned", [{"since": 24}, "damaged"])
def test_of_a_failure_its_words_are_left_and_nothing_of_the_graph(thinned: object) -> None:
    stack = [Frame("train.py", 7, user=True)]
    evidence = Evidence(raised=Raised("RuntimeError", MESSAGE, stack), nodes=[Node(0, "MulBackward0", stack=stack)])
    evidence.root = evidence.failing = 0
    assert as_told(evidence) is evidence
    assert not needs_record(evidence)
    evidence.extras[THINNED] = thinned
    told = as_told(evidence)
    assert needs_record(told)
    assert told.raised is evidence.raised
    assert (told.nodes, told.root, told.failing) == ([], -1, -1)
    assert len([line for line in told.degraded if "--capture full" in line]) == 1
    assert as_told(told) is told


def test_of_a_run_that_went_on_signs_are_left() -> None:
    evidence = Evidence(extras={THINNED: {"since": 24}}, signs=[Sign("step-missing")])
    assert as_told(evidence) is evidence
    assert len(evidence.degraded) == 1
    cut = Evidence(extras={THINNED: {"since": 24}}, signs=[Sign("covered-loss"), Sign("step-missing")])
    cut.raised = Raised("RuntimeError", MESSAGE)
    told = as_told(cut)
    assert ([s.kind for s in told.signs], told.raised) == ([THINNED, "step-missing"], None)
    assert needs_record(told)


def test_a_second_run_records_each_step() -> None:
    assert full_mode("observe:nan-off:no-audit:learned", "probe:record") == "probe:record:nan-off:no-audit"
