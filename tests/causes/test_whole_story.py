"""Programs run as they are: the place where the damage was done is told, with what the run itself has seen of it."""

from __future__ import annotations

from pathlib import Path

from seen import observe

SIGN = """\
from torch.autograd import Function
{more}

class Sign(Function):
    @staticmethod
    def forward(ctx, x, hard):
        ctx.save_for_backward(x)
        return x.sign() if hard else x.tanh()

    @staticmethod
    {mark}def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return {result}
"""
USES = """\
import torch
from functions import Sign

torch.manual_seed(0)
layer = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(2):
    opt.zero_grad()
    Sign.apply(layer(torch.randn(4, 3)), {second}).sum().backward()
    opt.step()
"""
ONCE = "from torch.autograd.function import once_differentiable\n"
PENALTY = """\
import torch
from functions import Sign

torch.manual_seed(0)
layer = torch.nn.Linear(3, 1)
x = torch.randn(4, 3, requires_grad=True)
(slope,) = torch.autograd.grad(Sign.apply(layer(x), False).square().sum(), x, create_graph=True)
slope.square().sum().backward()
"""


def sign(result: str, mark: str = "", more: str = "") -> str:
    return SIGN.format(result=result, mark=f"{mark}\n    " if mark else "", more=more)


# -- Functions ---------------------------------------------------------------------------------------------------------


def test_a_function_of_another_file_is_told_there(tmp_path: Path) -> None:
    seen = observe(tmp_path, USES.format(second="True"), functions=sign("grad"))
    assert seen.slugs[0] == "custom-function-bad-gradient"
    assert seen.lines("cause") == ["return grad"]
    assert seen.lines("created") == ["Sign.apply(layer(torch.randn(4, 3)), True).sum().backward()"]
    assert seen.lines("related") == ["def forward(ctx, x, hard):"]
    remedy = seen.found[0].finding.remedies[0]
    assert (remedy.kind, remedy.safety) == ("pad_return", "safe")
    assert "`hard`" in remedy.title
    assert "return grad, None\n" in seen.patches()[0][1]["functions.py"]


def test_none_for_a_tensor_is_not_called_safe_and_for_one_that_learns_not_proposed(tmp_path: Path) -> None:
    data = observe(tmp_path / "data", USES.format(second="torch.ones(1)"), functions=sign("grad"))
    assert [r.safety for r in data.found[0].finding.remedies] == ["unsafe"]
    trained = USES.format(second="torch.ones(1, requires_grad=True)")
    learns = observe(tmp_path / "learns", trained, functions=sign("grad"))
    assert learns.slugs[0] == "custom-function-bad-gradient"
    assert [r.safety for r in learns.found[0].finding.remedies] == ["placeholders"]


def test_a_function_that_returns_enough_is_left_alone(tmp_path: Path) -> None:
    assert observe(tmp_path, USES.format(second="True"), functions=sign("grad, None")).evidence is None


def test_the_mark_of_a_backward_in_torch_is_told_and_taken_off(tmp_path: Path) -> None:
    marked = sign("grad * (1 - x.tanh() ** 2), None", "@once_differentiable", ONCE)
    seen = observe(tmp_path, PENALTY, functions=marked)
    assert seen.slugs[0] == "no-double-backward"
    assert seen.lines("cause") == ["@once_differentiable"]
    assert "Sign.apply" in seen.lines("created")[0]
    assert "kernel" not in seen.found[0].finding.explanation
    kind, texts = seen.patches()[0]
    assert kind == "remove_switch"
    assert observe(tmp_path / "after", PENALTY, functions=texts["functions.py"]).evidence is None


def test_the_mark_stays_where_the_backward_leaves_the_graph(tmp_path: Path) -> None:
    results = (
        "grad * (1 - x.detach().tanh() ** 2), None",
        "grad * (1 - torch.from_numpy(np.tanh(x.detach().numpy())) ** 2), None",
        "grad.mul_(1 - x.tanh() ** 2), None",
    )
    for number, result in enumerate(results):
        marked = sign(result, "@once_differentiable", f"{ONCE}import numpy as np\nimport torch\n")
        seen = observe(tmp_path / str(number), PENALTY, functions=marked)
        assert seen.lines("cause") == ["@once_differentiable"]
        assert [r.safety for r in seen.found[0].finding.remedies] == ["display"]


def test_the_mark_stays_where_forward_saved_what_it_computed(tmp_path: Path) -> None:
    marked = sign("grad * (1 - x ** 2), None", "@once_differentiable", ONCE)
    marked = marked.replace("ctx.save_for_backward(x)", "y = x.tanh()\n        ctx.save_for_backward(y)")
    seen = observe(tmp_path, PENALTY, functions=marked)
    assert [r.safety for r in seen.found[0].finding.remedies] == ["display"]


# -- the scaler --------------------------------------------------------------------------------------------------------

SCALED = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)


def epoch(batches):
    for number, x in enumerate(batches):
        opt.zero_grad()
        scaler.scale(model(x).square().mean()).backward()
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if {test}:
            print("skipped", number)
            {before}continue
        scaler.step(opt)
        {update}


epoch([torch.randn(4, 3), torch.full((4, 3), float("inf")), torch.randn(4, 3), torch.randn(4, 3)])
"""


def scaled(test: str = "not norm.isfinite()", before: str = "", update: str = "scaler.update()") -> str:
    return SCALED.format(test=test, before=before, update=update)


def test_the_way_out_that_leaves_the_update_out_is_the_cause(tmp_path: Path) -> None:
    seen = observe(tmp_path, scaled())
    assert seen.slugs[0] == "amp-scaler-misuse"
    assert seen.lines("cause") == ["continue"]
    assert seen.lines("failed") == ["scaler.unscale_(opt)"]
    finding = seen.found[0].finding
    assert "already in this" not in finding.explanation
    assert any("2 backward calls" in f for f in finding.facts)
    kind, texts = seen.patches()[0]
    assert kind == "add_statement"
    assert texts["train.py"] == scaled(before="scaler.update()\n            ")


def test_an_update_on_every_way_out_is_left_alone(tmp_path: Path) -> None:
    assert observe(tmp_path, scaled(before="scaler.update()\n            ")).evidence is None


def test_unscaling_more_often_than_updating_is_told_at_the_call(tmp_path: Path) -> None:
    seen = observe(
        tmp_path, scaled("False", update="if number % 2: scaler.update()").replace("scaler.step(opt)", "pass")
    )
    assert seen.lines("cause") == ["scaler.unscale_(opt)"]
    assert "if number % 2: scaler.update()" in seen.lines("related")
    assert seen.found[0].finding.remedies == ()


def test_two_calls_in_one_iteration_are_both_told(tmp_path: Path) -> None:
    seen = observe(tmp_path, scaled("scaler.unscale_(opt)"))
    assert seen.lines("cause") == ["if scaler.unscale_(opt):"]
    assert seen.lines("related") == ["scaler.unscale_(opt)"]
    assert "same iteration" in seen.found[0].finding.explanation


# -- what an optimizer refuses -----------------------------------------------------------------------------------------

STORE = """\
import torch


class Store:
    def __init__(self):
        self.raw = {"mean": torch.zeros(2, requires_grad=True), "scale": torch.ones(2, requires_grad=True)}

    def get(self, name):
        value = self.raw[name]
        return value.exp() if name == "scale" else value


store = Store()


def fit():
    opt = torch.optim.SGD([store.get("mean"), {second}], lr=0.1)
    (store.get("mean") - store.get("scale")).square().sum().backward()
    opt.step()


fit()
"""


def test_the_refused_tensor_its_operation_and_its_leaf_are_named(tmp_path: Path) -> None:
    seen = observe(tmp_path, STORE.replace("{second}", 'store.get("scale")'))
    assert seen.slugs[0] == "non-leaf-parameter"
    finding = seen.found[0].finding
    assert seen.lines("cause")[0] == 'return value.exp() if name == "scale" else value'
    label = next(s.label for s in finding.spans if s.role == "cause")
    assert '`store.get("scale")`' in label
    assert "`store.raw['scale']`" in finding.explanation
    assert [r.safety for r in finding.remedies] == ["display"]


def test_leaves_are_not_refused(tmp_path: Path) -> None:
    assert observe(tmp_path, STORE.replace("{second}", 'store.raw["scale"]')).evidence is None


# -- unused ------------------------------------------------------------------------------------------------------------

PERTURBED = """\
import torch

torch.manual_seed(0)
embed_table, out = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2)


def smooth(evaluate, embed):
    noise = torch.zeros_like(embed).requires_grad_()
    return torch.autograd.grad(evaluate(embed + noise).square().sum(), noise)[0].norm()


def train(ids):
    embed = embed_table(ids)

    def evaluate(embed):
        return out({used})

    return smooth(evaluate, embed.detach())


print(train(torch.tensor([1, 2, 3])))
"""


def test_what_stands_where_the_argument_belongs_is_named(tmp_path: Path) -> None:
    seen = observe(tmp_path, PERTURBED.replace("{used}", "embed_table(ids)"))
    assert seen.slugs[0] == "unused-in-graph"
    remedy = seen.found[0].finding.remedies[0]
    assert remedy.safety == "display"
    assert "`embed_table(ids)`" in remedy.note and "`embed`" in remedy.note
    other = observe(tmp_path / "other", PERTURBED.replace("{used}", "torch.ones(3, 4)"))
    assert "anew" not in other.found[0].finding.remedies[0].note
    assert observe(tmp_path / "right", PERTURBED.replace("{used}", "embed")).evidence is None


# -- differentiated again in an optimizer ------------------------------------------------------------------------------

SECOND = """\
import torch

torch.manual_seed(0)


class Curved(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def step(self):
        params = [p for g in self.param_groups for p in g["params"]]
        curvature = torch.autograd.grad([p.grad.sum() for p in params], params)
        with torch.no_grad():
            for p, c in zip(params, curvature):
                p -= 0.1 * p.grad / (1 + c.abs())


layer = torch.nn.Linear(3, 1)
opt = Curved(layer.parameters())
for number in range(3):
    opt.zero_grad()
    layer(torch.randn(4, 3)).square().mean().backward({create})
    opt.step()
"""


def test_a_gradient_that_an_optimizer_differentiates_is_no_loss(tmp_path: Path) -> None:
    seen = observe(tmp_path, SECOND.replace("{create}", ""))
    assert seen.slugs[0] == "missing-create-graph"
    finding = seen.found[0].finding
    assert seen.lines("cause") == ["layer(torch.randn(4, 3)).square().mean().backward()"]
    assert "loss" not in finding.title + finding.explanation
    assert "zero_grad" in finding.remedies[0].note
    assert observe(tmp_path / "right", SECOND.replace("{create}", "create_graph=True")).evidence is None
