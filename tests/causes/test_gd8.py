"""Distributed, checkpoint and compile: the place is where the module was wrapped, checkpointed or compiled."""

from __future__ import annotations

import pytest
from made import NO_GRAPH, Program, cause, library, lines, only

from graphdoc.evidence import Cut, Event, Evidence, Node, Parameter, Stale, Tensor, Write
from graphdoc.program.observed import program_of

GD8 = (
    "ddp-unused-parameters",
    "ddp-marked-ready-twice",
    "ddp-buffer-broadcast",
    "checkpoint-mismatch",
    "checkpoint-no-grad-input",
    "compile-donated-buffers",
    "compile-no-double-backward",
)
UNFINISHED = "Expected to have finished reduction in the prior iteration before starting a new one. "


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        (UNFINISHED, "ddp-unused-parameters"),
        ("Expected to mark a variable ready only once. This error is caused by", "ddp-marked-ready-twice"),
        ("Recomputed values for the following tensors have different metadata than during the forward pass.", GD8[3]),
        ("A different number of tensors was saved during the original forward and recomputation.", GD8[3]),
        ("none of output has requires_grad=True, this checkpoint() is not necessary", "checkpoint-no-grad-input"),
        ("This backward function was compiled with non-empty donated buffers which requires", GD8[5]),
        ("torch.compile with aot_autograd does not currently support double backward", GD8[6]),
        ("torch.compile does not currently support higher order gradients.", GD8[6]),
    ],
)
def test_one_cause_for_each_message(message: str, slug: str) -> None:
    program = Program("out = model(x)\n")
    name, live = only(GD8, program.evidence(message, program.at("model(x)")))
    assert name == slug
    _, text = only(GD8, program.evidence(message, program.at("model(x)"), from_text=True))
    assert live.strength > 0.8 > 0.5 > text.strength
    only(GD8, Evidence(raised=program.evidence(message).raised))


@pytest.mark.parametrize("slug", GD8)
def test_other_messages_are_left_alone(slug: str) -> None:
    program = Program("out = model(x)\n")
    for message in ("Connection reset by peer", "a leaf Variable that requires grad", NO_GRAPH, ""):
        assert cause(slug).recognise(program_of(program.evidence(message, program.at("model(x)")))) is None


def test_the_wrapping_is_the_place_and_idle_parameters_are_named() -> None:
    program = Program("model = DDP(net)\nfor x in data:\n    model(x).sum().backward()\n")
    parameters = [Parameter("net.a", grad="present"), Parameter("net.b", grad="none")]
    message = UNFINISHED + "Parameter indices which did not receive grad for rank 1: 1\n In addition, you can set"
    _, finding = only(GD8, program.evidence(message, program.at("model(x)"), parameters=parameters))
    assert lines(finding) == [1]
    assert lines(finding, "failed") == [3]
    assert finding.facts == ("without gradient: `net.b`",)
    assert finding.title.startswith("`net.b` took no part in the loss")
    assert finding.remedies[0].args["name"] == "find_unused_parameters"


def test_the_numbers_of_the_message_count_in_the_order_of_the_wrapper() -> None:
    program = Program("model = DDP(net)\nmodel(x)\n")
    head, stage = Parameter("model.module.head", grad="present"), Parameter("model.module.body.stage", grad="present")
    message = UNFINISHED + "Parameter indices which did not receive grad for rank 0: 0\n"
    evidence = program.evidence(message, program.at("model(x)"), parameters=[head, stage])
    evidence.extras["wrapped"] = [[stage.name, head.name]]
    assert only(GD8, evidence)[1].title.startswith("`body.stage` took no part in the loss")
    stage.requires_grad = False
    assert only(GD8, evidence)[1].title.startswith("`body.stage` was frozen after DDP wrapped it")
    evidence.extras["wrapped"] = [[]]  # which of them were counted is not known
    assert "head" not in only(GD8, evidence)[1].title


def test_a_name_that_may_be_of_either_wrapper_is_not_called_frozen() -> None:
    program = Program("a = DDP(net)\nb = DDP(other)\nb(x)\n")
    weight, head = Parameter("a.module.weight", grad="present"), Parameter("b.module.head", grad="none")
    message = UNFINISHED + "Parameters which did not receive grad for rank 0: head\n"
    evidence = program.evidence(message, program.at("b(x)"), parameters=[weight, head])
    evidence.extras["wrapped"] = [[weight.name], [head.name]]
    assert only(GD8, evidence)[1].title.startswith("`head` took no part in the loss")


def test_two_wrappings_are_not_chosen_between() -> None:
    program = Program("a = DDP(net)\nb = DDP(other)\na(x)\n")
    _, finding = only(GD8, program.evidence(UNFINISHED, program.at("a(x)")))
    assert lines(finding) == [1, 2]
    assert finding.remedies == ()


def test_a_reentrant_checkpoint_or_a_weight_used_outside() -> None:
    message = "Expected to mark a variable ready only once."
    program = Program(
        "y = checkpoint(f, x, use_reentrant=True)\nz = checkpoint(g, y, use_reentrant=False)\ny.backward()\n"
    )
    _, finding = only(GD8, program.evidence(message, program.at("y.backward()")))
    assert lines(finding) == [1]
    assert finding.remedies[0].args["value"] == "False"
    program = Program("loss = out.mean() + model.module.head.weight.norm()\nmodel.module.eval()\nloss.backward()\n")
    assert lines(only(GD8, program.evidence(message, program.at("loss.backward()")))[1]) == [1]


def test_a_buffer_written_by_the_wrapper_itself() -> None:
    program = Program("a = model(x)\nb = model(y)\n(a - b).sum().backward()\n")
    message = "one of the variables needed for gradient computation has been modified by an inplace operation: ..."
    evidence = program.evidence(message, program.at("(a - b).sum().backward()"))
    inside = library("/site-packages/torch/nn/parallel/distributed.py")
    write = Write("copy_", [program.at("model(y)"), inside])
    evidence.stale = [Stale(0, "_saved_other", Tensor("buffer", "net.scale"), 1, 2, writes=[write])]
    name, finding = only(GD8, evidence)
    assert name == "ddp-buffer-broadcast"
    assert lines(finding) == [2]
    write.stack.pop()
    assert cause("ddp-buffer-broadcast").recognise(program_of(evidence)) is None


def test_state_that_a_checkpointed_forward_changes_is_told() -> None:
    program = Program(
        """\
class Block(Module):
    def forward(self, x):
        self.cache = torch.cat([self.cache, x])
        self.last = x
        return self.cache.sum()
out = checkpoint(block, x, use_reentrant=False)
out.backward()
"""
    )
    message = (
        "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
        "tensor at position 2:\nsaved metadata: {'shape': torch.Size([2, 3]), 'dtype': torch.float32}\n"
        "recomputed metadata: {'shape': torch.Size([4, 3]), 'dtype': torch.float32}"
    )
    evidence = program.evidence(message, program.at("out.backward()"))
    _, finding = only(GD8, evidence)
    assert (lines(finding), lines(finding, "related")) == ([6], [3])  # nothing shows that it ran inside
    inside = program.at("self.cache.sum()", "Block.forward")
    call = [program.at("checkpoint(block"), library("/site-packages/torch/utils/checkpoint.py"), inside]
    evidence.nodes = [Node(0, "SumBackward0", stack=call)]
    _, finding = only(GD8, evidence)
    assert lines(finding) == [3, 6]
    assert "[2, 3]" in finding.facts[0] and "[4, 3]" in finding.facts[0]


def test_a_reentrant_checkpoint_on_data() -> None:
    program = Program("h = checkpoint(block, x, use_reentrant=True)\nh.sum().backward()\n")
    at = program.at("h.sum().backward()")
    warning = "None of the inputs have requires_grad=True. Gradients will be None"
    _, warned = only(GD8, program.evidence(NO_GRAPH, at, warnings=[warning]))
    assert (lines(warned), warned.confidence) == ([1], "likely")
    stack = [program.at("checkpoint(block, x, use_reentrant=True)"), library("/x/torch/utils/checkpoint.py"), library()]
    name, seen = only(GD8, program.evidence(NO_GRAPH, at, cuts=[Cut("no-grad", "linear", stack)]))
    assert (name, lines(seen), seen.confidence) == ("checkpoint-no-grad-input", [1], "certain")
    assert seen.strength > 0.95  # above the cut that an ordinary no_grad would be
    assert seen.remedies[0].args == {
        "place": {"file": "train.py", "line": 1, "column": 5, "end_line": 1, "end_column": 45},
        "name": "use_reentrant",
        "value": "False",
    }


def test_what_is_asked_of_a_compiled_graph() -> None:
    program = Program("loss.backward(retain_graph=True)\n")
    message = "This backward function was compiled with non-empty donated buffers which requires create_graph=False"
    _, finding = only(GD8, program.evidence(message, program.at("loss.backward(retain_graph=True)")))
    assert "`retain_graph=True`" in finding.explanation
    assert finding.remedies[0].kind == "drop_keyword"


def test_the_compiled_model_and_the_first_gradient() -> None:
    program = Program("net = torch.compile(net)\ng = torch.autograd.grad(net(x), x, create_graph=True)\ng.backward()\n")
    first = Event(0, "grad", stack=[program.at("torch.autograd.grad(net(x), x, create_graph=True)")], create_graph=True)
    message = "torch.compile with aot_autograd does not currently support double backward"
    _, finding = only(GD8, program.evidence(message, program.at("g.backward()"), events=[first]))
    assert lines(finding) == [1]
    assert lines(finding, "related") == [2]
