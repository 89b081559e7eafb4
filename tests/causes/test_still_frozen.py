"""A network that is frozen for another network's loss and not let go: that is the fault, not the detach beside it."""

from __future__ import annotations

from pathlib import Path

from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
{helper}
G, D = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.SGD(G.parameters(), 0.05), torch.optim.SGD(D.parameters(), 0.05)


def train_d(real, fake):
    loss = D(fake.detach()).mean() - D(real).mean()
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()


def train_g(fake):
    {freeze}
    loss = -D(fake).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
{after}

for _ in range(3):
    fake = G(torch.randn(8, 4))
    train_d(torch.randn(8, 6), fake)
    train_g(fake)
print("done")
"""
HELPER = """

def toggle(net, flag):
    for p in net.parameters():
        p.requires_grad = flag

"""


def program(freeze: str, after: str = "", helper: str = "") -> str:
    return PROGRAM.format(freeze=freeze, after=after, helper=helper)


def test_the_network_that_was_frozen_since_is_let_go(tmp_path: Path) -> None:
    ways = {
        "D.requires_grad_(False)": "    D.requires_grad_(True)\n",
        "toggle(D, False)": "    toggle(D, True)\n",
        "for p in D.parameters():\n        p.requires_grad = False": "    D.requires_grad_(True)\n",
    }
    for number, (freeze, line) in enumerate(ways.items()):
        seen = observe(tmp_path / str(number), program(freeze, helper=HELPER))
        assert seen.slugs == ["frozen-parameters"]
        finding = seen.found[0].finding
        assert finding.confidence == "certain"
        assert "`D.*` (4 parameters) were frozen since the last time that this loss trained them" in seen.said
        assert seen.lines("cause")[0].startswith(freeze.partition("\n")[0])
        kind, texts = seen.patches()[0]
        assert kind == "add_statement"
        assert f"    opt_g.step()\n{line}" in texts["train.py"]
        assert observe(tmp_path / f"again{number}", texts["train.py"]).result.stdout == "done\n"


def test_what_is_let_go_is_no_fault(tmp_path: Path) -> None:
    seen = observe(tmp_path, program("D.requires_grad_(False)", "    D.requires_grad_(True)\n"))
    assert (seen.slugs, seen.result.status) == ([], 0)


def test_the_first_call_of_a_place_is_not_certain(tmp_path: Path) -> None:
    code = program("D.requires_grad_(False)")
    pair = "    train_d(torch.randn(8, 6), fake)\n", "    train_g(fake)\n"
    code = code.replace("".join(pair), "".join(pair[::-1]))
    seen = observe(tmp_path, code)
    assert seen.slugs == ["frozen-parameters"]
    assert seen.found[0].finding.confidence == "likely"
    assert "`opt_d` steps after this call and holds `D.*` (4 parameters)" in seen.said


def test_a_frozen_backbone_under_a_head_is_not_blamed(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn

body, head = nn.Linear(4, 6), nn.Linear(6, 1)
body.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), 0.1)
loss = head(body(torch.randn(3, 4))).detach().mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
    assert observe(tmp_path, code).slugs == ["cut-by-detach"]
