"""The reference of a trial gives the gradients of the program as it is written, whatever is written into."""

from __future__ import annotations

import pytest
from tracing import traced

START = "import torch\ntorch.manual_seed(3)\nx = torch.randn(5, 2, requires_grad=True)\n"
TANH = "1 - torch.tanh(x.detach()) ** 2"

WRITES = [
    ("y = torch.tanh(x)\ny.add_(1)\n", TANH),
    ("y = torch.tanh(x)\ny[2:].add_(1)\n", TANH),
    ("y = torch.tanh(x)\ny[:, 1] += 1\n", TANH),
    ("y = torch.tanh(x)\ny.T[1].mul_(1)\n", TANH),
    ("y = torch.tanh(x)\nfor i in range(1, 5):\n    y[i] = y[i] + 1\n", TANH),
]


@pytest.mark.parametrize(("source", "wanted"), WRITES)
def test_what_was_saved_is_found_whole(tmp_path, source, wanted):
    end = f"y.sum().backward()\nprint(torch.allclose(x.grad, {wanted}))\n"
    ran = traced(tmp_path, START + source + end, "verify:reference:-1")
    assert ran.result.stdout == "True\n", ran.result.stderr


def test_a_later_tensor_does_not_get_the_copy_of_an_earlier_one(tmp_path):
    source = """\
    import torch
    x = torch.randn(5, 1, requires_grad=True)
    wrong = 0
    for _ in range(50):
        loss, wanted, x.grad = 0.0, 0.0, None
        for k in range(6):
            y = torch.tanh(x * (k + 1))
            y[2:].add_(1)
            loss = loss + y.sum()
            wanted = wanted + (k + 1) * (1 - torch.tanh(x.detach() * (k + 1)) ** 2)
            del y
        loss.backward()
        wrong += not torch.allclose(x.grad, wanted)
    print(wrong)
    """
    ran = traced(tmp_path, source, "verify:reference:-1")
    assert ran.result.stdout == "0\n", ran.result.stderr
