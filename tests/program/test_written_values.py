"""Whether what is written in place has a graph of its own."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.refused_writes import learns_through
from graphdoc.program.spans import Reached


def _asked(body: str, *tensors: Reached) -> bool:
    text = "def f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return learns_through({"a.py": text}, Frame("a.py", text.count("\n"), function="f"), "s", tensors)


def _tensor(path: str, requires_grad: bool, is_leaf: bool) -> Reached:
    return Reached(path, "f", requires_grad, is_leaf, "", "torch.float32", False, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("s = torch.tensor(0.0, requires_grad=True)\ns += norm(p)", True),
        ("s = torch.zeros(1).to(x.device).requires_grad_()\ns += norm(p)", True),
        ("s = Variable(torch.zeros(1), requires_grad=True)\ns -= norm(p)", True),
        ("s = torch.tensor(0.0, requires_grad=True)\ns *= norm(p)", False),
        ("s = torch.tensor(0.0, requires_grad=True)\ns += 0.5", False),
        ("s = torch.tensor(0.0, requires_grad=True)\ns += norm(p).item()", False),
        ("s = torch.tensor(0.0, requires_grad=True)\ns += p.data", False),
        ("s = torch.zeros(n, requires_grad=True)\ns += norm(p)", False),
        ("s = model.weight\ns += norm(p)", False),
        ("s += norm(p)", False),
    ],
)
def test_a_sum_begun_from_a_constant(body: str, said: bool) -> None:
    assert _asked(body) is said


def test_what_an_operation_has_made() -> None:
    assert _asked("s[0] = y", _tensor("y", True, False))
    assert _asked("s.add_(2 * y)", _tensor("y", True, False))
    assert not _asked("s[0] = y", _tensor("y", False, True))
    assert not _asked("s.mul_(0.9)", _tensor("y", True, False))
    assert not _asked("s.copy_(y)", _tensor("y", True, True))
    assert not _asked("s[0] = y.detach()", _tensor("y", True, False))
    assert not _asked("s = torch.zeros(1)\ns += y", _tensor("y", False, True))


@pytest.mark.parametrize("graph", [True, False])
def test_what_a_loop_runs_over(graph: bool) -> None:
    """``for p, g in zip(net.parameters(), grads)``: gradients that have a graph are differentiated through."""
    grads = _tensor("grads[0]", graph, not graph)
    assert _asked("for s, g in zip(net.parameters(), grads): s -= 0.1 * g", grads) is graph
    assert _asked("for i, (s, g) in enumerate(zip(weights, grads)): s -= 0.1 * g", grads) is graph
    assert not _asked("for s, g in zip(grads, weights): s -= 0.1 * g", grads)
