"""What an installed package does itself is told as its deed: package, version and line, beside the user's call."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import ON_PATH, install
from seen import Seen, observe

from graphdoc.diagnose import diagnose
from graphdoc.model import Span
from graphdoc.render import render

BLOCKS = {
    "tinyvol/__init__.py": "from .blocks import *\n",
    "tinyvol/blocks.py": """\
        import torch
        from torch import nn


        class Block(nn.Module):
            def __init__(self, width, residual):
                super().__init__()
                self.inner = nn.Linear(width, width)
                self.residual = residual

            def forward(self, x):
                y = torch.sigmoid(self.inner(x))
                if self.residual:
                    y += x
                return y


        class Net(nn.Module):
            def __init__(self, width, residual=False):
                super().__init__()
                self.blocks = nn.Sequential(Block(width, residual), Block(width, residual))

            def forward(self, x):
                return self.blocks(x)


        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(4, 4)
                self.state = None

            def forward(self, x):
                self.state = self.cell(x, self.state)
                return self.state


        class Activated(nn.Module):
            def __init__(self, act):
                super().__init__()
                self.inner, self.act = nn.Linear(4, 4), act

            def forward(self, x):
                return self.act(torch.sigmoid(self.inner(x)))


        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, grad):
                return grad[:1]


        def twice(x):
            return Twice.apply(x)


        class Tap(nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, x):
                return self.net(x).clone().detach()


        def length(v):
            return torch.sqrt((v * v).sum())


        def squares(v):
            return (v * v).sum()


        def soften(x):
            x.mul_(0.5)
            return x.tanh()


        def picture(image):
            return image.mul_(255).round().tolist()


        picture_ = picture
    """,
}
RESIDUAL = (
    ON_PATH
    + """
import torch
from tinyvol import Net

torch.manual_seed(0)
model = Net(4, residual=True)
for _ in range(2):
    x = torch.randn(3, 4)
    loss = model(x).pow(2).mean()
    loss.backward()
"""
)
SAVED_BY_THE_USER = (
    ON_PATH
    + """
import torch
from tinyvol import soften

torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
gate = torch.sigmoid(layer(torch.randn(3, 4)))
soften(gate).sum().backward()
"""
)
WRITTEN_BY_THE_USER = (
    ON_PATH
    + """
import torch
from tinyvol import Net

torch.manual_seed(0)
out = Net(4)(torch.randn(3, 4))
out += 1
out.sum().backward()
"""
)
CARRIED = (
    ON_PATH
    + """
import torch
from tinyvol import Recurrent

torch.manual_seed(0)
model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(2, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


FROM_ZERO = (
    ON_PATH
    + """\
import torch
from tinyvol import length, squares

p = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([p], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = (length(p) + 1).log()
    loss.backward()
    optimizer.step()
"""
)


SHOWN = (
    ON_PATH
    + """\
import torch
from tinyvol import picture

image = torch.rand(3, 3, requires_grad=True)
optimizer = torch.optim.SGD([image], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = (image.square() - 1).square().mean()
    picture(image.cpu().detach())
    loss.backward()
    optimizer.step()
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install(tmp_path, "tiny-volumes", "0.3.1", BLOCKS)
    return tmp_path


def spans(told: Seen, *roles: str) -> list[Span]:
    return [s for s in told.found[0].finding.spans if s.role in roles]


def packages_spans(told: Seen) -> dict[str, tuple[str, str]]:
    """Role and label of each place in the package, by the line's text."""
    assert told.evidence is not None
    out: dict[str, tuple[str, str]] = {}
    for s in told.found[0].finding.spans:
        if "site-packages" in s.file:
            text = (next(p for p in told.evidence.packages if s.file in p.files)).text(s.file).splitlines()[s.line - 1]
            out[text.strip()] = (s.role, s.label)
    return out


def test_package_is_named_as_its_installer_recorded_it(folder: Path) -> None:
    told = observe(folder, RESIDUAL)
    assert told.evidence is not None
    (package,) = told.evidence.packages
    assert (package.name, package.version) == ("tiny-volumes", "0.3.1")
    assert package.files == ["site-packages/tinyvol/blocks.py"]
    # The functions that ran, at their own lines, and nothing else of the file.
    text = package.text(package.files[0]).splitlines()
    assert text[13].strip() == "y += x" and not any("soften" in line or "class" in line for line in text)


def test_write_and_save_in_one_call_are_the_packages_fault(folder: Path) -> None:
    told = observe(folder, RESIDUAL)
    finding = told.found[0].finding
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert told.lines_of_user("cause") == ["loss = model(x).pow(2).mean()"]
    assert packages_spans(told)["y += x"][0] == "mutated"
    assert packages_spans(told)["y = torch.sigmoid(self.inner(x))"][0] in ("related", "consumed")
    assert "tiny-volumes 0.3.1" in finding.title + finding.explanation
    assert "tinyvol/blocks.py:14" in finding.explanation
    assert "`residual=True` at train.py:9" in finding.explanation
    assert all("tiny-volumes 0.3.1" in label for _, label in packages_spans(told).values())


def test_no_patch_that_cannot_help_and_none_of_the_package(folder: Path) -> None:
    told = observe(folder, RESIDUAL)
    assert not told.patches()
    remedies = told.found[0].finding.remedies
    assert remedies and all(r.safety == "display" for r in remedies)
    assert any("residual=True" in r.title for r in remedies)
    assert any("0.3.1" in r.title and "report" in r.title for r in remedies)


def test_code_of_the_package_is_shown(folder: Path) -> None:
    told = observe(folder, RESIDUAL)
    assert told.evidence is not None
    text = render(diagnose(told.evidence), "terminal", width=120)
    assert "y += x" in text and "loss = model(x)" in text and "blocks.py:14" in text


def test_tensor_that_the_user_saved_can_be_cloned_by_the_user(folder: Path) -> None:
    told = observe(folder, SAVED_BY_THE_USER)
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert packages_spans(told)["x.mul_(0.5)"][0] == "mutated"
    kinds = [kind for kind, _ in told.patches()]
    assert "clone_expression" in kinds


def test_package_that_writes_into_what_it_was_shown_is_handed_a_copy(folder: Path) -> None:
    told = observe(folder, SHOWN)
    assert told.slugs[0] == "parameter-overwritten"
    assert told.lines_of_user("cause")[0] == "picture(image.cpu().detach())"
    kind, texts = told.patches()[0]
    assert kind == "clone_expression"
    assert "picture(image.cpu().detach().clone())" in texts["train.py"]


def test_package_whose_name_says_that_it_writes_is_not_handed_a_copy(folder: Path) -> None:
    told = observe(folder, SHOWN.replace("picture(", "picture_(").replace("import picture", "import picture_"))
    assert told.slugs[0] == "parameter-overwritten"
    assert all("picture_(image.cpu().detach())" in texts["train.py"] for _, texts in told.patches())


def test_write_of_the_users_own_is_no_packages_fault(folder: Path) -> None:
    told = observe(folder, WRITTEN_BY_THE_USER)
    assert told.lines_of_user("cause") == ["out += 1"]
    assert told.patches()[0][0] == "out_of_place"
    assert "fault" not in told.found[0].finding.explanation


def test_in_place_module_that_the_user_gave_to_a_package_is_the_users(folder: Path) -> None:
    code = WRITTEN_BY_THE_USER.replace("Net", "Activated").replace("(4)(", "(torch.nn.ReLU(inplace=True))(")
    told = observe(folder, code.replace("out += 1\n", ""))
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert "fault" not in told.found[0].finding.explanation
    ((kind, texts),) = told.patches()[:1]
    assert kind == "out_of_place" and "inplace=True" not in texts["train.py"]


def test_function_of_a_package_that_gives_a_bad_gradient(folder: Path) -> None:
    code = ON_PATH + "import torch\nfrom tinyvol import twice\n\nw = torch.ones(3, requires_grad=True)\n"
    told = observe(folder, code + "y = twice(w)\ny.sum().backward()\n")
    assert told.slugs[0] == "custom-function-bad-gradient"
    assert "return Twice.apply(x)" in packages_spans(told)
    assert not told.patches()


TAPPED = (
    ON_PATH
    + """
import torch
from torch import nn
from tinyvol import Tap

torch.manual_seed(0)
encoder, head = Tap(nn.Linear(4, 4)), nn.Linear(4, 1)
model = nn.Sequential(encoder, head)
optimizer = torch.optim.SGD({given}, lr=0.1)
for _ in range(8):
    loss = model(torch.randn(6, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("given", "confidence"),
    [
        ("[*encoder.parameters(), *head.parameters()]", ["likely"]),
        ("model.parameters()", ["possible"]),
        ("head.parameters()", []),
    ],
    ids=["by-its-name", "with-all-of-a-model", "not-at-all"],
)
def test_what_is_handed_to_an_optimizer_and_cut_off_by_a_package(
    folder: Path, given: str, confidence: list[str]
) -> None:
    told = observe(folder, TAPPED.replace("{given}", given))
    assert [f.finding.confidence for f in told.found] == confidence
    if confidence:
        assert told.slugs == ["cut-by-detach"]
        assert "return self.net(x).clone().detach()" in packages_spans(told)
        assert not told.patches()


def test_root_that_a_package_takes_of_what_it_is_given(folder: Path) -> None:
    """What the user hands over is no operand of the root: a bound on it would end its training."""
    told = observe(folder, FROM_ZERO)
    assert told.slugs == ["nan-sqrt-at-zero"]
    assert told.found[0].finding.title.startswith("`(v * v).sum()` is zero")
    assert told.lines_of_user("cause") == ["loss = (length(p) + 1).log()"]
    assert packages_spans(told) == {
        "return torch.sqrt((v * v).sum())": ("related", "computed here, in tiny-volumes 0.3.1")
    }
    assert not told.patches()


def test_root_of_the_users_own_beside_a_package(folder: Path) -> None:
    told = observe(folder, FROM_ZERO.replace("length(p)", "torch.sqrt(squares(p))"))
    assert told.slugs == ["nan-sqrt-at-zero"]
    ((kind, texts),) = told.patches()
    assert kind == "guard_operand" and "torch.sqrt(squares(p).clamp_min(1e-12))" in texts["train.py"]


def test_state_that_a_package_keeps(folder: Path) -> None:
    told = observe(folder, CARRIED)
    assert told.slugs[0] == "carried-state"
    assert "self.state = self.cell(x, self.state)" in packages_spans(told)
    assert all("site-packages" not in file for _, texts in told.patches() for file in texts)
    assert told.patches(), "the user can cut what the package keeps, from outside"
    assert told.found[0].finding.because.endswith("; tiny-volumes 0.3.1 keeps it at tinyvol/blocks.py:34")


def ways(told: Seen) -> list[str]:
    return [r.title.partition(",")[0] for r in told.found[0].finding.remedies]


@pytest.mark.parametrize("headed", [False, True])
def test_no_cut_where_the_state_is_made_for_it_trains_the_cell(folder: Path, headed: bool) -> None:
    code = CARRIED
    if headed:
        code = code.replace("model = Recurrent()", "model, head = Recurrent(), torch.nn.Linear(4, 1)")
        code = code.replace("model(torch.randn(2, 4))", "head(model(torch.randn(2, 4)))")
        code = code.replace("SGD(model.parameters()", "SGD([*model.parameters(), *head.parameters()]")
    assert ways(observe(folder, code)) == ["detach `model.state` once each iteration"]


def test_package_in_a_folder_of_pip_install_target(tmp_path: Path) -> None:
    install(tmp_path, "tiny-volumes", "0.3.1", BLOCKS, into="deps")
    told = observe(tmp_path, RESIDUAL.replace("site-packages", "deps"))
    assert told.lines_of_user("cause") == ["loss = model(x).pow(2).mean()"]
    assert told.found[0].finding.title.startswith("tiny-volumes 0.3.1 overwrites")
    assert "deps/tinyvol/blocks.py" in {s.file for s in told.found[0].finding.spans}
    assert not [k for k, texts in told.patches() for file in texts if file.startswith("deps")]


def test_package_that_only_makes_a_value_is_not_told_of_what_the_user_does_with_it(folder: Path) -> None:
    code = (
        CARRIED.replace("Recurrent", "Net")
        .replace("Net()", "Net(4)")
        .replace("for _", "last = torch.zeros(2, 4)\nfor _")
    )
    code = code.replace("loss = model(torch.randn(2, 4)).pow(2).mean()", "last = model(torch.randn(2, 4)) * last.cos()")
    told = observe(folder, code.replace("loss.backward()", "last.sum().backward()"))
    assert told.slugs[0] == "carried-state"
    assert not packages_spans(told)


@pytest.mark.breadth(1)
@pytest.mark.parametrize("other", ["settings = dict(residual=True)", "Net(4, residual=False)", "residual = True"])
def test_argument_of_something_else_is_not_what_turned_it_on(folder: Path, other: str) -> None:
    told = observe(folder, RESIDUAL.replace("model = Net(4, residual=True)", f"model = Net(4, True)\n{other}"))
    finding = told.found[0].finding
    assert "tiny-volumes 0.3.1 writes into" in finding.explanation
    assert "because of" not in finding.explanation and len(finding.remedies) == 1


def test_editable_package_is_the_users_own_code(tmp_path: Path) -> None:
    """An editable install lies outside of site-packages: its files are patched like the user's."""
    project = tmp_path / "tinyproject"
    (project / "tinyvol").mkdir(parents=True)
    import textwrap

    for path, text in BLOCKS.items():
        (project / path).write_text(textwrap.dedent(text))
    told = observe(tmp_path, RESIDUAL.replace("site-packages", "tinyproject"))
    assert told.lines_of_user("cause") == ["y += x"]
    assert told.patches()[0][0] == "out_of_place"


CACHING = {
    "tinygraphs.py": """\
        import torch
        from torch import nn


        def normal(weights):
            return weights / weights.sum()


        class Layer(nn.Module):
            def __init__(self, width, cached=False):
                super().__init__()
                self.inner, self.cached, self._kept = nn.Linear(width, width), cached, None

            def forward(self, x, weights):
                if self._kept is None:
                    scale = normal(weights)
                    if self.cached:
                        self._kept = (scale, x.shape)
                else:
                    scale, _ = self._kept
                return self.inner(x) * scale
    """
}
LEARNT = (
    ON_PATH
    + """
import torch
from tinygraphs import Layer
from torch import nn

torch.manual_seed(0)
weights = nn.Parameter(torch.rand(3))
first = Layer(3, cached=True)
second = Layer(3, cached=SECOND)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters(), weights], lr=0.1)
for x in torch.randn(3, 4, 3):
    optimizer.zero_grad()
    second(first(x, weights.exp()), weights.exp()).pow(2).mean().backward()
    optimizer.step()
"""
)


@pytest.mark.parametrize("second", ["True", "False"])
def test_cache_that_the_user_has_switched_on_is_switched_off_in_his_call(tmp_path: Path, second: str) -> None:
    install(tmp_path, "tiny-graphs", "2.0", CACHING)
    told = observe(tmp_path, LEARNT.replace("SECOND", second))
    assert told.slugs[0] == "graph-built-once"
    kind, texts = told.patches()[0]
    assert kind == "several"
    assert texts["train.py"] == (tmp_path / "train.py").read_text().replace("cached=True", "cached=False")


RECURRENT = {
    "tinyrecurrent.py": """\
        import torch
        from torch import nn


        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells = nn.ModuleList(nn.LSTM(3, 3) for _ in range(2))

            def forward(self, x, states=None):
                kept = []
                for cell, state in zip(self.cells, states or [None, None]):
                    x, after = cell(x, state)
                    kept.append(after)
                return x, kept
    """
}
HANDED_ROUND = (
    ON_PATH
    + """
import torch
from tinyrecurrent import Layers

torch.manual_seed(0)
layers = Layers()
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
states = None
for x in torch.randn(4, 1, 2, 3):
    optimizer.zero_grad()
    output, states = layers(x, states)
    loss = output.pow(2).mean()
    loss.backward()
    optimizer.step()
"""
)


def test_result_that_no_later_pass_reads_is_not_cut_for_the_states_beside_it(tmp_path: Path) -> None:
    install(tmp_path, "tiny-recurrent", "1.2", RECURRENT)
    told = observe(tmp_path, HANDED_ROUND)
    assert told.slugs[0] == "carried-state"
    _, texts = told.patches()[0]
    cut = texts["train.py"].partition("optimizer.step()")[2]
    assert "states = [" in cut and "output" not in cut
