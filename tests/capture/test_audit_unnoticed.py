"""The audit of a run that goes on leaves nothing in the program: no mode, no frame, no reference, no other number."""

from __future__ import annotations

from pathlib import Path

import pytest
from observed import both, run, script

PROGRAM = """
import copy, gc, sys, traceback, weakref, warnings
from torch import nn
gc.disable()

def modes():
    c = torch._C
    return (
        c._len_torch_function_stack(), c._len_torch_dispatch_stack(), c._autograd._saved_tensors_hooks_is_enabled(),
        torch.is_anomaly_enabled(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), sys.gettrace(),
    )

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
    def forward(self, x):
        print("forward", modes())
        try:
            torch.zeros(2) @ torch.zeros(3)
        except RuntimeError:
            print([(f.filename, f.lineno, f.name) for f in traceback.extract_tb(sys.exc_info()[2])])
            print([f.filename for f in traceback.extract_stack()])
        return self.head(self.body(x).tanh())

net = Net()
net.register_full_backward_hook(lambda *a: print("hook", modes()))
target = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
critic = nn.Linear(4, 1)
unused = torch.optim.Adam(critic.parameters(), fused=True)
kept, died = {}, []

def lr(step):
    print("scheduler", modes())
    return 1.0

def iteration(i):
    x = torch.randn(6, 4)
    prediction = net(x)
    constant = torch.tensor(prediction.abs().mean().item())
    loss = (prediction - target(x)).square().mean() + constant + critic(x).mean()
    died.extend(weakref.ref(t) for t in (x, prediction, constant, loss))
    opt.zero_grad(set_to_none=i % 2 == 0)
    unused.zero_grad()
    loss.backward(retain_graph=i == 1)
    kept.update({n: p.grad for n, p in net.named_parameters()})
    opt.step()
    if i > 2:
        unused.step()
        target.load_state_dict(net.state_dict())
    print(loss.item(), [sys.getrefcount(p) for p in net.parameters()])

def training():
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lr)
    for i in range(12):
        iteration(i)
        scheduler.step()
        print(i, modes(), [r() is None for r in died])
    return weakref.ref(scheduler)

died.append(training())
kept.clear()
references = [weakref.ref(o) for o in (net, target, opt, critic, unused, net.body.weight, critic.bias)]
del net, target, critic
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.nn.functional.mse_loss(torch.zeros(2), torch.zeros(2, 1))
print([(w.filename, w.lineno, str(w.message)) for w in caught])
del opt, unused
print([r() is None for r in references], [r() is None for r in died])
"""


def test_the_audit_leaves_nothing_in_the_program(tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAM)
    plain, seen = both(path)
    assert plain.status == 0, plain.stderr
    assert "(0, 0, True, False, True, False, None)" in plain.stdout
    assert seen.result == plain
    assert not seen.troubles
    assert "grad-aliased" in {sign.kind for sign in seen.only.signs}, "the audit has looked"


EDGE = """
from torch.autograd.graph import get_gradient_edge
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    edge = get_gradient_edge(net(torch.randn(4, 3)).pow(2).mean())
    torch.autograd.backward([edge], grad_tensors=[torch.ones(())])
    opt.step()
"""


def test_a_call_on_an_edge_of_the_graph_is_looked_at_as_well(tmp_path: Path) -> None:
    found = run(script(tmp_path, EDGE))
    assert not found.troubles, found.troubles
    assert found.result.status == 0 and not found.evidence, found


BETWEEN = """
from torch.autograd.graph import get_gradient_edge
class Middle(torch.nn.Linear):
    training = property(lambda self: print("asked") or True, lambda self, mode: None)
first, middle, last = torch.nn.Linear(3, 4), Middle(4, 4), torch.nn.Linear(4, 32)
opt = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
for _ in range(12):
    opt.zero_grad()
    loss = last(middle(first(torch.randn(4, 3)).tanh()).tanh()).pow(2).mean()
    torch.autograd.backward([{root}], grad_tensors=[torch.ones(())])
    opt.step()
"""


@pytest.mark.parametrize("root", ["loss", "get_gradient_edge(loss)"])
def test_a_layer_that_no_optimizer_holds_is_looked_at_without_its_code(root: str, tmp_path: Path) -> None:
    plain, seen = both(script(tmp_path, BETWEEN.replace("{root}", root)))
    assert seen.result == plain
    assert not seen.troubles, seen.troubles


SWITCHED = """
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.no_grad():
    mean = net.weight.mean()
for i in range(4):
    loss = net(torch.randn(3, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    if i == 3:
        loss.backward()
"""


def test_what_we_switch_is_no_switch_of_the_program(tmp_path: Path) -> None:
    evidence = run(script(tmp_path, SWITCHED)).only
    lines = (tmp_path / "train.py").read_text().splitlines()
    assert [lines[f["line"] - 1] for f in evidence.extras["switches"]["no_grad"]] == ["with torch.no_grad():"]
