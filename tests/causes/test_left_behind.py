"""Results that are no leaves, in real runs: a gradient at module level, a warning, a deep copy of a used module."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = "import copy\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
BODY = "body, head = nn.Linear(3, 3), nn.Linear(3, 1)\n"


def test_at_module_level_a_result_is_known_to_be_one(tmp_path: Path) -> None:
    code = "features = body(torch.randn(2, 3))\nhead(features).sum().backward()\nprint(features.grad.norm())\n"
    seen = observe(tmp_path, HEAD + BODY + code)
    assert seen.slugs == ["grad-of-non-leaf"]
    assert seen.found[0].finding.confidence == "certain"
    assert seen.lines("created") == ["features = body(torch.randn(2, 3))"]
    assert seen.evidence is not None
    assert "features" in [t["path"] for t in seen.evidence.extras["locals"]]


def test_at_module_level_an_input_without_the_flag_is_known_to_be_one(tmp_path: Path) -> None:
    code = "x = torch.randn(2, 3)\nhead(body(x)).sum().backward()\nprint(x.grad.norm())\n"
    seen = observe(tmp_path, HEAD + BODY + code)
    assert seen.slugs == ["input-needs-grad"]
    assert "has `requires_grad=False`" in seen.found[0].finding.explanation


def test_the_gradient_of_the_leaf_is_left_alone(tmp_path: Path) -> None:
    code = "x = torch.randn(2, 3).requires_grad_()\nhead(body(x)).sum().backward()\nprint(x.grad.norm() > 0)\n"
    seen = observe(tmp_path, HEAD + BODY + code)
    assert (seen.result.status, seen.found) == (0, [])


def test_pytorchs_warning_speaks_where_no_name_leads_to_the_tensor(tmp_path: Path) -> None:
    code = "kept = [body(torch.randn(2, 3))]\nhead(kept[0]).sum().backward()\nprint(kept[-1].grad.norm())\n"
    seen = observe(tmp_path, HEAD + BODY + code)
    assert seen.slugs == ["grad-of-non-leaf"]
    assert seen.evidence is not None
    assert len(seen.evidence.warnings) == 1
    assert seen.evidence.warnings[0].startswith("train.py:8: The .grad attribute of a Tensor that is not a leaf")
    assert "UserWarning: The .grad attribute" in seen.result.stderr


def test_a_warning_for_another_line_does_not(tmp_path: Path) -> None:
    code = (
        "features = body(torch.randn(2, 3))\nhead(features).sum().backward()\nprint(features.grad)\n"
        "kept = [torch.randn(3)]\nprint(kept[-1].grad.norm())\n"
    )
    seen = observe(tmp_path, HEAD + BODY + code)
    assert seen.evidence is not None
    assert len(seen.evidence.warnings) == 1
    assert "grad-of-non-leaf" not in seen.slugs


def test_the_users_own_warnings_are_not_kept(tmp_path: Path) -> None:
    code = "import warnings\nwarnings.warn('learning rate 0.25')\nx = torch.randn(2)\nprint(x.grad.norm())\n"
    seen = observe(tmp_path, HEAD + code)
    assert seen.evidence is not None
    assert seen.evidence.warnings == []
    assert "learning rate 0.25" in seen.result.stderr


CHECKPOINTED = """\
from torch.utils.checkpoint import checkpoint
def through(block, x):
    return checkpoint(
        block, x, use_reentrant=True
    )
again = checkpoint(head, body(torch.randn(2, 3)), use_reentrant=True)
through(body, torch.randn(2, 3)).sum().backward()
"""
SCHEDULED = """\
opt = torch.optim.SGD(body.parameters(), 0.1)
later = torch.optim.lr_scheduler.StepLR(opt, 1)
later.step()
opt.step()
body(torch.randn(2, 3)).sum().detach().backward()
"""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (CHECKPOINTED, "train.py:8: None of the inputs have requires_grad=True. Gradients will be None"),
        (SCHEDULED, "train.py:8: Detected call of `lr_scheduler.step()` before `optimizer.step()`."),
    ],
)
def test_a_warning_of_a_file_of_torch_names_the_users_line(code: str, told: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + BODY + code)
    assert seen.evidence is not None
    assert seen.evidence.warnings == [told]


KEEPING = """
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.shown = None

    def forward(self, x):
        h = self.fc(x).relu()
        self.shown = {kept}
        return h
"""
COPYING = (
    "from block import Block\nnet = Block()\nnet(torch.randn(2, 3))\nprint(len(copy.deepcopy(net).state_dict()))\n"
)


def test_what_a_copied_module_keeps_is_told_in_the_file_that_keeps_it(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + COPYING, block=KEEPING.format(kept="h"))
    assert seen.slugs == ["deepcopy-non-leaf"]
    assert seen.lines("cause") == ["self.shown = h"]
    assert "`net.shown`" in seen.found[0].finding.spans[0].label
    kind, texts = seen.patches()[0]
    assert kind == "detach_stored"
    assert texts["block.py"] == KEEPING.format(kept="h.detach()")
    again = observe(tmp_path / "again", HEAD + COPYING, block=texts["block.py"])
    assert (again.result.status, again.result.stdout) == (0, "2\n")


def test_a_result_where_layers_keep_a_buffer_is_told_once(tmp_path: Path) -> None:
    block = KEEPING.replace("self.shown = None", 'self.register_buffer("shown", torch.zeros(3))')
    block = block.replace("from torch import nn", "import torch\nfrom torch import nn").format(kept="h")
    code = COPYING.replace("Block()", "nn.Sequential(Block(), Block())")
    seen = observe(tmp_path, HEAD + code, block=block)
    assert seen.slugs == ["deepcopy-non-leaf"]
    assert seen.lines("cause") == ["self.shown = h"]
    assert "`net.0.shown`, `net.1.shown`" in seen.said or "`net.0.shown` and `net.1.shown`" in seen.said
    assert seen.patches()[0][0] == "detach_stored"


def test_a_kept_result_that_a_loss_reads_is_cleared_before_the_copy(tmp_path: Path) -> None:
    code = COPYING + "print((net.shown or torch.zeros(1)).mean())\n"
    seen = observe(tmp_path, HEAD + code, block=KEEPING.format(kept="h"))
    assert [kind for kind, _ in seen.patches()] == ["add_statement", "detach_stored"]


def test_every_file_that_a_span_names_has_its_source(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + COPYING, block=KEEPING.format(kept="h"))
    assert seen.evidence is not None
    assert {s.file for s in seen.found[0].finding.spans} <= set(seen.evidence.sources)
    assert {"train.py", "block.py"} <= set(seen.evidence.sources)


def test_zeros_do_not_stand_for_the_one_gradient_that_is_asked_for(tmp_path: Path) -> None:
    code = "noise = torch.zeros(3, requires_grad=True)\nhead(torch.randn(2, 3)).sum().backward()\nnoise.grad.sign()\n"
    seen = observe(tmp_path, HEAD + BODY + code)
    assert seen.slugs == ["grad-is-none"]
    assert "the loss does not reach `noise`" in seen.said and not seen.found[0].finding.remedies
