"""Gradients of gradients: no graph, no second derivative, or a second derivative that is zero."""

from __future__ import annotations

from typing import Any

import pytest
from made import NO_GRAPH, UNUSED, Program, cause, lines

from graphdoc.evidence import Cut, Event, Evidence, Frame, Node
from graphdoc.finding import Finding
from graphdoc.program.observed import program_of

GD4 = ("missing-create-graph", "no-double-backward", "constant-derivative")
SECOND_TIME = "Trying to backward through the graph a second time (or directly access saved tensors ...)"

PENALTY = Program(
    """\
score = critic(mixed)
slope = torch.autograd.grad(score.sum(), mixed)[0]
penalty = slope.norm()
total = score.mean() + penalty
penalty.backward()
total.backward()
"""
)
GRAD = PENALTY.at("torch.autograd.grad(score.sum(), mixed)")
FAILED = PENALTY.at("penalty.backward()")


def told(evidence: Evidence) -> dict[str, Finding]:
    return {slug: found for slug in (*GD4, "unused-in-graph") if (found := cause(slug).recognise(program_of(evidence)))}


def grad(frame: Frame, index: int = 0, **more: Any) -> Event:
    return Event(index, "grad", stack=[frame], **more)


def test_the_cut_is_the_gradient_itself() -> None:
    cut = Cut("nondifferentiable", "grad", [GRAD])
    evidence = PENALTY.evidence(NO_GRAPH, FAILED, cuts=[cut], events=[grad(GRAD)])
    (name, finding), *others = told(evidence).items()
    assert name == "missing-create-graph" and not others
    assert finding.confidence == "certain"
    assert lines(finding) == [2]
    assert lines(finding, "failed") == [5]
    remedy = finding.remedies[0]
    assert (remedy.kind, remedy.args["name"], remedy.args["value"]) == ("set_keyword", "create_graph", "True")


def test_with_create_graph_it_is_another_cause() -> None:
    cut = Cut("nondifferentiable", "grad", [GRAD])
    evidence = PENALTY.evidence(NO_GRAPH, FAILED, cuts=[cut], events=[grad(GRAD, create_graph=True)])
    assert "missing-create-graph" not in told(evidence)


def test_without_a_second_run_the_journal_speaks_more_softly() -> None:
    finding = told(PENALTY.evidence(NO_GRAPH, FAILED, events=[grad(GRAD)]))["missing-create-graph"]
    assert finding.confidence == "likely"
    assert finding.strength < 0.7


def test_a_gradient_of_an_iteration_before_the_last_step_is_not_blamed() -> None:
    events = [grad(GRAD), Event(1, "step")]
    assert told(PENALTY.evidence(NO_GRAPH, FAILED, events=events)) == {}


def test_the_freed_graph_is_told_where_the_gradient_feeds_the_loss() -> None:
    at = PENALTY.at("total.backward()")
    evidence = PENALTY.evidence(SECOND_TIME, at, events=[grad(GRAD)], extras={"freed_by": 0})
    assert lines(told(evidence)["missing-create-graph"]) == [2]
    other = Program("g = torch.autograd.grad(a, w)[0]\nprint(g)\nb.backward()\n")
    event = grad(other.at("torch.autograd.grad(a, w)"))
    evidence = other.evidence(SECOND_TIME, other.at("b.backward()"), events=[event], extras={"freed_by": 0})
    assert told(evidence) == {}


@pytest.mark.parametrize("program", [Program("y = F.scaled_dot_product_attention(q, k, v)\ng.norm().backward()\n")])
def test_the_forward_of_a_fused_kernel_is_found_by_its_node(program: Program) -> None:
    kernel = "_scaled_dot_product_flash_attention_for_cpu_backward"
    at, forward = program.at("g.norm().backward()"), program.at("F.scaled_dot_product_attention(q, k, v)")
    evidence = program.evidence(f"derivative for aten::{kernel} is not implemented", at)
    evidence.nodes = [Node(0, "ScaledDotProductFlashAttentionForCpuBackward0", stack=[forward])]
    finding = told(evidence)["no-double-backward"]
    assert lines(finding) == [1]
    assert finding.remedies[0].kind == "sdpa_math"
    evidence.nodes = []
    assert lines(told(evidence)["no-double-backward"]) == [1]


def test_an_operation_without_any_derivative_is_not_a_double_backward() -> None:
    assert told(PENALTY.evidence("derivative for aten::foo is not implemented", FAILED)) == {}


SECOND = Program("first = torch.autograd.grad(y, x, create_graph=True)[0]\ng = torch.autograd.grad(first.sum(), x)\n")


@pytest.mark.parametrize("message", [UNUSED, NO_GRAPH])
def test_a_constant_derivative_is_told_and_its_neighbours_are_silent(message: str) -> None:
    first, second = SECOND.at("torch.autograd.grad(y, x, create_graph=True)"), SECOND.at("torch.autograd.grad(first")
    second.end_column = second.column + len("torch.autograd.grad(first.sum(), x)")
    events = [grad(first, create_graph=True), grad(second, 1, failed=True)]
    found = told(SECOND.evidence(message, second, events=events))
    assert list(found) == ["constant-derivative"]
    assert lines(found["constant-derivative"]) == [2]
    events[0].create_graph = False
    assert "constant-derivative" not in told(SECOND.evidence(message, second, events=events))
