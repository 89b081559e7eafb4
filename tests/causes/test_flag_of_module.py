"""``module.requires_grad = False`` sets an attribute and freezes nothing; a flag of the author's own is left alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

TEXT = """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.top = nn.Linear(16, 3)
        FREEZE

    def forward(self, x):
        return self.top(self.backbone(x))


def train():
    torch.manual_seed(0)
    tagger = Tagger()
    optimizer = torch.optim.Adam(tagger.parameters(), 1e-3)
    for _ in range(5):
        x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(tagger(x), y).backward()
        optimizer.step()


train()
"""


def test_a_flag_set_on_a_module_is_told_and_mended(tmp_path: Path) -> None:
    seen = observe(tmp_path, TEXT.replace("FREEZE", "self.backbone.requires_grad = False"))
    assert seen.slugs[:1] == ["frozen-parameters"]
    assert seen.lines("cause") == ["self.backbone.requires_grad = False"]
    kind, texts = seen.patches()[0]
    assert kind == "rewrite"
    assert "        self.backbone.requires_grad_(False)\n" in texts["train.py"]
    assert observe(tmp_path / "mended", texts["train.py"]).mended


def test_a_module_whose_flag_is_true_and_whose_parameters_are_frozen_is_told(tmp_path: Path) -> None:
    text = "self.backbone.requires_grad_(False)\n        self.backbone.requires_grad = True"
    seen = observe(tmp_path, TEXT.replace("FREEZE", text))
    assert seen.lines("cause") == ["self.backbone.requires_grad = True"]
    assert seen.patches()[0][0] == "rewrite"


def test_a_flag_that_agrees_with_its_parameters_is_healthy(tmp_path: Path) -> None:
    text = "self.backbone.requires_grad_(False)\n        self.backbone.requires_grad = False"
    assert observe(tmp_path, TEXT.replace("FREEZE", text)).slugs == []


def test_a_flag_that_the_program_reads_is_its_own(tmp_path: Path) -> None:
    text = TEXT.replace("FREEZE", "self.backbone.requires_grad = False")
    text = text.replace(
        "return self.top(self.backbone(x))",
        "h = self.backbone(x)\n        return self.top(h if self.backbone.requires_grad else 0.5 * h)",
    )
    assert observe(tmp_path, text).slugs == []


LATER = """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)
        OWN

    def forward(self, x):
        return torch.tanh(self.inner(x))


torch.manual_seed(0)
layers, top = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*layers.parameters(), *top.parameters()], lr=0.1)
print(len([p for p in layers.parameters() if p.requires_grad]))
for step in range(30):
    if step == 10:
        for layer in layers:
            LATE
    h = x = torch.randn(16, 6)
    for layer in layers:
        h = layer(h)
        SEEN
    optimizer.zero_grad()
    nn.functional.cross_entropy(top(h), (x.sum(1) > 0).long()).backward()
    optimizer.step()
"""


def late(own: str = "pass", late: str = "pass", seen: str = "pass") -> str:
    return LATER.replace("OWN", own).replace("LATE", late).replace("SEEN", seen)


def test_a_flag_that_is_set_on_the_way_and_on_whatever_a_loop_gives_is_told(tmp_path: Path) -> None:
    seen = observe(tmp_path, late(late="layer.requires_grad = False"))
    assert seen.lines("cause") == ["layer.requires_grad = False"]
    assert seen.found[0].finding.confidence == "likely"
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


def test_a_flag_that_is_read_by_another_name_is_the_programs_own(tmp_path: Path) -> None:
    text = late("self.requires_grad = False", seen="h = h if not layer.requires_grad else 0.5 * h")
    assert observe(tmp_path, text).slugs == []


def test_two_modules_whose_flags_are_set_are_told_together(tmp_path: Path) -> None:
    text = "self.backbone.requires_grad = False\n        self.top.requires_grad = False"
    seen = observe(tmp_path, TEXT.replace("FREEZE", text))
    assert seen.lines("cause") == text.replace("        ", "").splitlines()
    assert seen.patches()[0][1]["train.py"].count("requires_grad_(False)") == 2


OF_PARTS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.stem(x).tanh())


def rate(part):
    return HELPER


torch.manual_seed(0)
net = Net()
net.stem.requires_grad = False
optimizer = torch.optim.SGD(GROUPS, lr=0.1)
for x in torch.randn(12, 8, 4):
    optimizer.zero_grad()
    net(x).pow(2).mean().backward()
    optimizer.step()
"""
EACH = '[{"params": m.parameters(), "lr": RATE} for m in (net.stem, net.head)]'


@pytest.mark.parametrize(
    ("groups", "helper"),
    [
        (EACH.replace("(net.stem, net.head)", "net.children() if hasattr(m, 'weight')"), "m.requires_grad"),
        (EACH, 'getattr(m, "requires_grad", True)'),
        ('[{"params": net.stem.parameters(), "lr": rate(net.stem)}, {"params": net.head.parameters()}]', ""),
    ],
    ids=["in a loop over modules", "by a text", "in a function"],
)
def test_a_setting_that_the_program_reads_is_healthy(tmp_path: Path, groups: str, helper: str) -> None:
    text = OF_PARTS.replace("GROUPS", groups.replace("RATE", f"0.1 if {helper} else 0.01"))
    assert observe(tmp_path, text.replace("HELPER", "0.1 if part.requires_grad else 0.01")).slugs == []
