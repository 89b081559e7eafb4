"""Missing gradients: which cut is told, with which places, and what is left to the neighbours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import FILE, NO_GRAPH, UNUSED, Program, cause, library, lines, local
from seen import observe

from graphdoc.evidence import Cut, Event, Evidence, Optimizer, Parameter
from graphdoc.finding import Finding
from graphdoc.program.observed import program_of

CUTS = ("cut-by-conversion", "cut-by-detach", "cut-by-no-grad", "nondifferentiable-op", "frozen-parameters")
GD3 = (*CUTS, "input-needs-grad", "unused-in-graph", "non-leaf-parameter", "grad-of-non-leaf", "constant-loss")


def told(evidence: Evidence, slugs: tuple[str, ...] = (*GD3, "missing-create-graph")) -> dict[str, Finding]:
    """What the causes find, strongest first."""
    found = {slug: finding for slug in slugs if (finding := cause(slug).recognise(program_of(evidence))) is not None}
    return dict(sorted(found.items(), key=lambda item: -item[1].strength))


def best(evidence: Evidence) -> tuple[str, Finding]:
    return next(iter(told(evidence).items()))


PROGRAM = Program(
    """\
import torch
model = torch.nn.Linear(3, 1)
@torch.no_grad()
def encode(x):
    return model(x)
x = torch.randn(4, 3)
out = model(x)
flat = out.detach()
many = torch.tensor([v for v in out])
index = out.argmax()
loss = index.float()
loss.backward()
"""
)
BACKWARD = PROGRAM.at("loss.backward()")
MODEL = PROGRAM.at("model(x)", nth=1)


def a_cut(reason: str, op: str, text: str, **more: Any) -> Cut:
    return Cut(reason, op, [PROGRAM.at(text)], [MODEL], "AddmmBackward0", **more)


@pytest.mark.parametrize(
    ("slug", "cut", "line"),
    [
        ("cut-by-conversion", a_cut("conversion", "tensor", "torch.tensor([v for v in out])"), 9),
        ("cut-by-detach", a_cut("detach", "detach", "out.detach()"), 8),
        ("nondifferentiable-op", a_cut("nondifferentiable", "argmax", "out.argmax()"), 10),
    ],
)
def test_the_first_cut_is_told_with_its_line_and_the_last_graph(slug: str, cut: Cut, line: int) -> None:
    name, finding = best(PROGRAM.evidence(at=BACKWARD, cuts=[cut]))
    assert name == slug
    assert finding.confidence == "likely"
    assert lines(finding) == [line]
    assert lines(finding, "related") == [7]
    assert lines(finding, "failed") == [12]
    assert "AddmmBackward0" in finding.facts[0]


@pytest.mark.parametrize("trained", ["model.weight", "other.weight"])
def test_a_cut_is_certain_where_an_optimizer_is_to_train_what_lies_behind_it(trained: str) -> None:
    """What another network has computed is cut off as a target should be."""
    cut = a_cut("detach", "detach", "out.detach()", behind=["model.weight"])
    evidence = PROGRAM.evidence(at=BACKWARD, cuts=[cut])
    evidence.optimizers = [Optimizer(0, "SGD", "opt", [trained])]
    name, finding = best(evidence)
    assert (name, finding.confidence) == ("cut-by-detach", "certain" if trained == "model.weight" else "likely")
    frozen = a_cut("frozen", "linear", "model(x)", behind=["model.bias"])
    evidence.cuts.append(frozen)
    found = told(replace(evidence))
    assert found["frozen-parameters"].confidence == "possible"


TARGETS = {
    "frozen student": "for p in student.parameters():\n    p.requires_grad_(False)\n"
    "loss = (student(x) - teacher(x).detach()).pow(2).mean()\n",
    "plain weight": "w = torch.randn(4, 2)\nwith torch.no_grad():\n    goal = teacher(x)\n"
    "loss = (x @ w - goal).pow(2).mean()\n",
    "label": "student.requires_grad_(False)\n"
    "loss = torch.nn.functional.cross_entropy(student(x), teacher(x).argmax(1))\n",
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_target_that_is_rightly_cut_off_is_never_certainly_the_fault(target: str, tmp_path: Path) -> None:
    code = "import torch\nteacher, student = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)\nx = torch.randn(5, 4)\n"
    found = observe(tmp_path, code + target + "loss.backward()\n").found
    assert found
    assert not [f for f in found if f.finding.confidence == "certain"]


def test_a_decorator_and_the_unrecorded_line_are_both_told() -> None:
    cut = Cut("no-grad", "linear", [PROGRAM.at("model(x)", "encode"), library()], switch_kind="no_grad")
    name, finding = best(PROGRAM.evidence(at=BACKWARD, cuts=[cut]))
    assert name == "cut-by-no-grad"
    assert lines(finding) == [3, 5]
    assert finding.remedies[0].kind == "remove_switch"
    assert finding.remedies[0].args["place"]["line"] == 3


def test_where_several_cuts_meet_a_conversion_is_believed_before_a_target_under_no_grad() -> None:
    switched = Cut("no-grad", "linear", [PROGRAM.at("model(x)", "encode")])
    converted = a_cut("conversion", "item", "torch.tensor([v for v in out])")
    names = list(told(PROGRAM.evidence(at=BACKWARD, cuts=[switched, converted])))
    assert names[0] == "cut-by-conversion"
    assert "cut-by-no-grad" in names


def test_a_conversion_that_is_only_a_candidate_is_not_called_certain() -> None:
    cut = a_cut("conversion", "item", "torch.tensor([v for v in out])", certain=False)
    _, finding = best(PROGRAM.evidence(at=BACKWARD, cuts=[cut]))
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("multinomial", "log_prob"),
        ("torch.Tensor.argmax", "cross_entropy"),
        ("__gt__", "binary_cross_entropy_with_logits"),
        ("aten::histc", "soft memberships"),
        ("long", "straight-through"),
        ("something_new", "smooth function"),
    ],
)
def test_the_surrogate_is_named(op: str, words: str) -> None:
    _, finding = best(PROGRAM.evidence(at=BACKWARD, cuts=[a_cut("nondifferentiable", op, "out.argmax()")]))
    assert words in finding.explanation


def test_a_missing_first_derivative_is_named_by_pytorch_itself() -> None:
    name, finding = best(PROGRAM.evidence("derivative for aten::foo is not implemented", MODEL))
    assert name == "nondifferentiable-op"
    assert "foo" in finding.explanation


def test_pasted_text_gives_only_possibilities() -> None:
    found = told(PROGRAM.evidence(at=BACKWARD, from_text=True))
    assert list(found) == [CUTS[i] for i in (0, 2, 1, 3, 4)]
    assert all(f.confidence == "possible" and f.strength <= 0.3 for f in found.values())


@pytest.mark.parametrize("slug", GD3)
def test_other_messages_are_left_alone(slug: str) -> None:
    for message in ("CUDA out of memory", "mat1 and mat2 shapes cannot be multiplied", "", "x" * 100_000):
        assert cause(slug).recognise(program_of(PROGRAM.evidence(message, MODEL))) is None


@pytest.mark.parametrize("slug", GD3)
def test_nothing_known_but_the_message_raises_nothing(slug: str) -> None:
    for message in (NO_GRAPH, UNUSED, "'NoneType' object has no attribute 'sign'", "can't optimize a non-leaf Tensor"):
        cause(slug).recognise(program_of(Evidence(raised=None)))
        cause(slug).recognise(program_of(PROGRAM.evidence(message, None)))
        cause(slug).recognise(program_of(PROGRAM.evidence(message, MODEL, from_text=True)))


# -- frozen, constant, float -------------------------------------------------------------------------------------------

FROZEN = Program(
    """\
import torch
model = torch.nn.Linear(3, 1)
model.requires_grad_(False)
total = torch.zeros(())
loss = total / 2
loss.backward()
"""
)


def made_by(program: Program, text: str, op: str) -> dict[str, object]:
    return {"loss_made": [{"op": op, "stack": [vars(program.at(text))]}], "grad_enabled": True}


def test_all_parameters_frozen() -> None:
    evidence = FROZEN.evidence(
        at=FROZEN.at("loss.backward()"),
        parameters=[Parameter("model.weight", requires_grad=False), Parameter("model.bias", requires_grad=False)],
        extras=made_by(FROZEN, "total / 2", "div"),
    )
    name, finding = best(evidence)
    assert name == "frozen-parameters"
    assert lines(finding)[0] == 3
    assert "model.weight" in finding.facts[0]


def test_trainable_parameters_and_a_loss_of_constants() -> None:
    evidence = FROZEN.evidence(
        at=FROZEN.at("loss.backward()"),
        parameters=[Parameter("model.weight"), Parameter("model.bias")],
        extras=made_by(FROZEN, "total / 2", "div"),
    )
    name, finding = best(evidence)
    assert name == "constant-loss"
    assert 4 in lines(finding)


def test_recording_that_is_off_is_neither_frozen_nor_constant() -> None:
    extras = {**made_by(FROZEN, "total / 2", "div"), "grad_enabled": False}
    evidence = FROZEN.evidence(at=FROZEN.at("loss.backward()"), parameters=[Parameter("w")], extras=extras)
    assert not {"frozen-parameters", "constant-loss"} & set(told(evidence))


def test_a_float_loss_leads_to_the_assignment() -> None:
    program = Program("loss = criterion(out, y).item()\nloss.backward()\n")
    evidence = program.evidence("'float' object has no attribute 'backward'", program.at("loss.backward"))
    name, finding = best(evidence)
    assert name == "cut-by-conversion"
    assert lines(finding) == [1]


# -- inputs, leaves ----------------------------------------------------------------------------------------------------

NONE = "'NoneType' object has no attribute 'sign'"


def test_the_input_is_followed_into_the_caller() -> None:
    program = Program(
        """\
def slope(u, x):
    return torch.autograd.grad(u.sum(), x)[0]
points = torch.rand(3, 1)
slope(net(points), points)
"""
    )
    inner, outer = program.at("torch.autograd.grad(u.sum(), x)", "slope"), program.at("slope(net(points), points)")
    evidence = program.evidence("One of the differentiated Tensors does not require grad")
    assert evidence.raised is not None
    evidence.raised.stack = [outer, inner]
    name, finding = best(evidence)
    assert name == "input-needs-grad"
    assert lines(finding) == [3, 2]
    assert finding.remedies[0].kind == "require_input_grad"
    assert finding.remedies[0].args["name"] == "points"


def test_a_gradient_that_is_none_is_told_apart_by_leaf_and_history() -> None:
    program = Program("x = data.clone()\nmodel(x).sum().backward()\nstep = x.grad.sign()\n")
    at, made = program.at("x.grad.sign"), program.at("data.clone()")
    leaf = program.evidence(NONE, at, extras={"locals": [local("x", leaf=True, requires_grad=False)]})
    assert best(leaf)[0] == "input-needs-grad"
    inner = local("x", leaf=False, requires_grad=True, made=made, op="CloneBackward0")
    name, finding = best(program.evidence(NONE, at, extras={"locals": [inner]}))
    assert name == "grad-of-non-leaf"
    assert finding.confidence == "certain"
    assert lines(finding) == [3]
    assert lines(finding, "created") == [1]
    assert finding.remedies[0].args["statement"] == "x.retain_grad()"


def test_none_that_has_nothing_to_do_with_gradients() -> None:
    program = Program("model = None\nmodel.sign()\n")
    assert told(program.evidence(NONE, program.at("model.sign"))) == {}


def test_an_update_that_binds_the_name_anew() -> None:
    program = Program("w = start()\nwith torch.no_grad():\n    w = w - 0.1 * w.grad\nw.grad.sign()\n")
    name, finding = best(program.evidence(NONE, program.at("w.grad.sign")))
    assert name == "non-leaf-parameter"
    assert lines(finding) == [3]
    assert finding.remedies[0].kind == "under_no_grad_update"


def test_an_optimizer_that_refuses_a_result() -> None:
    program = Program("images = torch.randn(3, requires_grad=True) * 0.1\nopt = torch.optim.SGD([images], lr=0.1)\n")
    made = program.at("torch.randn(3, requires_grad=True) * 0.1")
    known = local("images", leaf=False, requires_grad=True, made=made, op="MulBackward0")
    call = program.at("torch.optim.SGD([images], lr=0.1)")
    evidence = program.evidence("can't optimize a non-leaf Tensor", call, "ValueError", extras={"locals": [known]})
    name, finding = best(evidence)
    assert name == "non-leaf-parameter"
    assert lines(finding) == [1, 2]
    assert finding.remedies[0].kind == "make_leaf"


# -- unused ------------------------------------------------------------------------------------------------------------


def test_a_closure_that_drops_its_argument() -> None:
    program = Program(
        """\
def regulariser(f, state):
    noise = torch.zeros(3).requires_grad_()
    return torch.autograd.grad(f(state + noise).sum(), noise)
def f(state):
    return model(tokens)
regulariser(f, embed(tokens))
"""
    )
    at = program.at("torch.autograd.grad(f(state + noise).sum(), noise)", "regulariser")
    name, finding = best(program.evidence(UNUSED, at))
    assert name == "unused-in-graph"
    assert lines(finding) == [5, 3]
    assert "`state`" in finding.explanation


def test_a_step_in_between_is_the_reason() -> None:
    program = Program("(w * loss).backward()\ninner.step()\ng = torch.autograd.grad(clean, [w])\n")
    grad = program.at("torch.autograd.grad(clean, [w])")
    events = [
        Event(0, "backward", stack=[program.at("(w * loss).backward()")]),
        Event(1, "step", stack=[program.at("inner.step()")]),
        Event(2, "grad", stack=[grad], failed=True),
    ]
    _, finding = best(program.evidence(UNUSED, grad, events=events))
    assert lines(finding) == [2, 3]
    later = [events[0], Event(1, "step", stack=[grad]), events[2]]
    assert lines(best(program.evidence(UNUSED, grad, events=later))[1]) == [3]


def test_a_function_that_ignores_something_else_is_not_to_blame() -> None:
    source = "def log(value, step):\n    print(value)\ndef energy(x):\n    return net.weight.sum()\nlog(1.0, 3)\n"
    call = "torch.autograd.grad(energy(x), x)"
    blamed = Program(source + call + "\n")
    message = "The differentiated Tensor at index 0 appears to not have been used in the graph."
    _, finding = best(blamed.evidence(message, blamed.at(call)))
    assert "`energy` takes `x` and does not use it" in finding.explanation
    left = Program(source.replace("return net", "return x.sum() + net") + call + "\n")
    _, finding = best(left.evidence(message, left.at(call)))
    assert "`energy` takes" not in finding.explanation and lines(finding) == [6]


def test_the_index_names_the_input() -> None:
    program = Program("torch.autograd.grad(loss, [a.weight, b.weight])\n")
    message = "The differentiated Tensor at index 1 appears to not have been used in the graph."
    _, finding = best(program.evidence(message, program.at("torch.autograd.grad(loss, [a.weight, b.weight])")))
    assert "`b.weight`" in finding.explanation
    assert all(s.file == FILE for s in finding.spans)


LATE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)

    def forward(self, x):
        return self.body(x)


made, judge = Net(), nn.Linear(3, 1)
judge.requires_grad_(False)
opt = torch.optim.SGD(made.parameters(), lr=0.1)
for _ in range(2):
    for p in made.parameters():
        p.requires_grad = {flag}
    x = torch.randn(4, 3)
    fake = made(x)
    for p in made.parameters():
        p.requires_grad = True
    loss = judge(fake).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_what_was_frozen_when_it_was_used_is_told_and_not_a_judge_that_is_meant_to_be(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", "import torch\nfrom torch import nn\n" + LATE.format(flag="False"))
    assert seen.slugs[0] == "frozen-parameters"
    finding = seen.found[0].finding
    assert finding.title.startswith("`made.body.*` (2 parameters) were frozen when") and "judge" not in finding.title
    [new] = [texts["train.py"] for kind, texts in seen.patches() if kind == "recompute_after"]
    assert "        p.requires_grad = True\n    fake = made(x)\n" in new
    assert observe(tmp_path / "mended", new).mended


def test_what_is_let_require_gradients_in_time_is_left_alone(tmp_path: Path) -> None:
    seen = observe(tmp_path, "import torch\nfrom torch import nn\n" + LATE.format(flag="True"))
    assert seen.mended
