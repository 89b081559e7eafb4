"""Misuse of the API: the message is plain, the place and the remedy are what matters."""

from __future__ import annotations

import pytest
from made import Program, cause, library, lines, local, only

from graphdoc.diagnose import findings_for
from graphdoc.evidence import Evidence
from graphdoc.program.observed import program_of

GD5 = (
    "non-scalar-loss",
    "numpy-on-grad-tensor",
    "deepcopy-non-leaf",
    "integer-requires-grad",
    "requires-grad-on-non-leaf",
    "custom-function-bad-gradient",
    "custom-function-saved-misuse",
    "amp-scaler-misuse",
)


MESSAGES = [
    ("grad can be implicitly created only for scalar outputs", "non-scalar-loss"),
    ("grad can be implicitly created only for real scalar outputs but got torch.complex64", "non-scalar-loss"),
    ("Can't call numpy() on Tensor that\nrequires grad. Use tensor.detach().numpy()", "numpy-on-grad-tensor"),
    ("Can't call numpy() on Variable that requires grad.", "numpy-on-grad-tensor"),
    ("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol", "deepcopy-non-leaf"),
    ("Only Tensors of floating point and complex dtype can require gradients", "integer-requires-grad"),
    ("only Tensors of floating point dtype can require gradients", "integer-requires-grad"),
    ("you can only change requires_grad flags of leaf variables.", "requires-grad-on-non-leaf"),
    (
        "function FBackward returned an incorrect number of gradients (expected 2, got 1)",
        "custom-function-bad-gradient",
    ),
    ("Function FBackward returned an invalid gradient at index 0 - got [5]", "custom-function-bad-gradient"),
    ("expected Variable or None (got float)", "custom-function-bad-gradient"),
    ("save_for_backward can only save variables, but argument 0 is of type int", "custom-function-saved-misuse"),
    ("unscale_() has already been called on this optimizer since the last update().", "amp-scaler-misuse"),
    ("No inf checks were recorded for this optimizer.", "amp-scaler-misuse"),
    ("Attempting to unscale FP16 gradients.", "amp-scaler-misuse"),
]


@pytest.mark.parametrize(("message", "slug"), MESSAGES)
def test_one_cause_for_each_message(message: str, slug: str) -> None:
    program = Program("work(x)\n")
    name, live = only(GD5, program.evidence(message, program.at("work(x)")))
    assert name == slug
    _, text = only(GD5, program.evidence(message, program.at("work(x)"), from_text=True))
    assert live.strength > 0.8 > 0.5 > text.strength
    assert text.confidence != "certain"
    only(GD5, Evidence(raised=program.evidence(message).raised))


ARGUMENTS = [
    ("F.backward() takes 2 positional arguments but 3 were given", "custom-function-bad-gradient", "one gradient for"),
    ("F.forward() takes 1 positional argument but 2 were given", "custom-function-saved-misuse", "number of arguments"),
]


@pytest.mark.parametrize(("message", "slug", "title"), ARGUMENTS)
def test_arguments_are_told_of_a_function_whose_methods_autograd_calls(message: str, slug: str, title: str) -> None:
    program = Program("work(x)\n")
    evidence = program.evidence(message, program.at("work(x)"), "TypeError")
    assert evidence.raised is not None
    module, function = (library(f"/site-packages/torch/{f}.py") for f in ("nn/modules/module", "autograd/function"))
    evidence.raised.stack.append(module)  # of a module's own forward it says nothing about a Function
    assert not findings_for(evidence)[0]
    evidence.raised.stack[-1] = function
    name, finding = only(GD5, Evidence(raised=evidence.raised, sources=evidence.sources))
    assert name == slug
    assert title in finding.title


def test_a_node_of_pytorch_is_no_custom_function() -> None:
    for message in (
        "Function MmBackward0 returned an invalid gradient at index 0 - got [5] but expected shape compatible with [3]",
        "'SumBackward0' object has no attribute 'weight'",
    ):
        program = Program("work(x)\n")
        assert not findings_for(program.evidence(message, program.at("work(x)")))[0]


@pytest.mark.parametrize("slug", GD5)
def test_other_messages_are_left_alone(slug: str) -> None:
    program = Program("work(x)\n")
    for message in (
        "CUDA out of memory",
        "not enough values to unpack (expected 2, got 1)",
        "f() takes 1 argument",
        "",
    ):
        assert cause(slug).recognise(program_of(program.evidence(message, program.at("work(x)")))) is None


def test_the_loss_is_sought_where_it_gets_its_value() -> None:
    program = Program("loss = criterion(out, y) * w\nprint(loss)\nloss.backward()\n")
    message = "grad can be implicitly created only for scalar outputs"
    _, finding = only(GD5, program.evidence(message, program.at("loss.backward()")))
    assert lines(finding) == [1]
    assert lines(finding, "failed") == [3]
    assert (finding.remedies[0].kind, finding.remedies[0].args["method"]) == ("reduce_loss", "mean")


def test_a_numpy_call_itself_is_safe_to_detach_and_a_hidden_one_is_not() -> None:
    message = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
    plain, hidden = Program("v = out.numpy()\n"), Program("v = np.mean([a, b])\n")
    assert only(GD5, plain.evidence(message, plain.at("out.numpy()")))[1].remedies[0].safety == "safe"
    assert only(GD5, hidden.evidence(message, hidden.at("np.mean([a, b])")))[1].remedies[0].safety == "unsafe"


COPY = Program(
    """\
class Gate(nn.Module):
    def forward(self, x):
        self.map = torch.sigmoid(x)
        return x * self.map
ema = copy.deepcopy(model)
"""
)
DEEPCOPY = "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."


def test_the_result_left_in_the_module_is_found_in_the_run() -> None:
    call, made = COPY.at("copy.deepcopy(model)"), COPY.at("torch.sigmoid(x)")
    inside = local("model.gate.map", leaf=False, requires_grad=True, made=made, op="SigmoidBackward0")
    elsewhere = local("loss", leaf=False, requires_grad=True, made=call, op="MeanBackward0")
    _, finding = only(GD5, COPY.evidence(DEEPCOPY, call, extras={"locals": [elsewhere, inside]}))
    assert lines(finding) == [3]
    assert "model.gate.map" in finding.facts[0]
    assert lines(finding, "failed") == [5]


def test_whole_numbers_lead_to_where_they_were_made() -> None:
    program = Program("ids = torch.arange(3)\nids.requires_grad = True\n")
    message = "only Tensors of floating point and complex dtype can require gradients"
    _, finding = only(GD5, program.evidence(message, program.at("ids.requires_grad")))
    assert lines(finding) == [2]
    assert lines(finding, "created") == [1]


def test_switching_a_flag_off_offers_a_detach_and_switching_it_on_does_not() -> None:
    message = "you can only change requires_grad flags of leaf variables."
    hint = message + " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
    program = Program("f = net(x)\nf.requires_grad = False\n")
    _, off = only(GD5, program.evidence(hint + "var_no_grad = var.detach().", program.at("f.requires_grad")))
    edits = off.remedies[0].args["edits"]
    assert [e["kind"] for e in edits] == ["detach_assigned", "delete_statement"]
    assert [e["args"]["place"]["line"] for e in edits] == [1, 2]
    _, on = only(GD5, program.evidence(message, program.at("f.requires_grad")))
    assert on.remedies == ()


FUNCTION = Program(
    """\
class Scale(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.save_for_backward(k)
        return x * k
    @staticmethod
    def backward(ctx, g):
        x, k = ctx.saved_tensors
        if g is None:
            return g
        return g * k
loss.backward()
"""
)


def test_every_return_of_the_named_functions_backward_is_told() -> None:
    message = "function ScaleBackward returned an incorrect number of gradients (expected 2, got 1)"
    _, finding = only(GD5, FUNCTION.evidence(message, FUNCTION.at("loss.backward()")))
    assert lines(finding) == [11, 12]
    edits = finding.remedies[0].args["edits"]
    assert [(e["kind"], e["args"]["place"]["line"]) for e in edits] == [("pad_return", 11), ("pad_return", 12)]
    single = Program(FUNCTION.source.replace("        if g is None:\n            return g\n", ""))
    _, finding = only(GD5, single.evidence(message, single.at("loss.backward()")))
    assert lines(finding) == [10]
    assert (finding.remedies[0].kind, finding.remedies[0].args["count"]) == ("pad_return", 2)


def test_tensors_saved_in_two_calls() -> None:
    at = FUNCTION.at("x, k = ctx.saved_tensors", "Scale.backward")
    name, finding = only(GD5, FUNCTION.evidence("not enough values to unpack (expected 2, got 1)", at, "ValueError"))
    assert name == "custom-function-saved-misuse"
    assert lines(finding) == [4, 5]
