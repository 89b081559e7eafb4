"""An array that becomes a tensor again may have been meant to train; an index and an environment's answer are not."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.values_taken_out import tensor_again


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("a = «x.numpy()»\nb = np.abs(a).mean()\nloss = loss + torch.tensor(b)\n", 3),
        ("loss = torch.from_numpy(np.diff(«x.numpy()»)).sum()\n", 1),
        ("order = np.argsort(«x.numpy()»)\nloss = x[torch.from_numpy(order)].mean()\n", 0),
        ("answer = world.step(«x.numpy()»)\nstate = torch.tensor(answer)\n", 0),
        ("print(«x.numpy()»)\n", 0),
    ],
)
def test_what_numpy_makes_is_followed_to_a_tensor(code: str, line: int) -> None:
    before = code.partition("«")[0]
    start = len(before.rpartition("\n")[2])
    end = len(code.partition("»")[0].rpartition("\n")[2]) - 1
    at = before.count("\n") + 1
    frame = Frame("train.py", at, start + 1, at, end + 1)
    found = tensor_again({"train.py": code.replace("«", "").replace("»", "")}, [frame])
    assert (found.line if found else 0) == line


def test_what_a_function_returns_is_followed_to_its_caller() -> None:
    code = "def to_np(t):\n    return t.numpy()\n\n\nloss = torch.as_tensor(to_np(x)).mean()\n"
    stack = [Frame("train.py", 5, 24, 5, 32), Frame("train.py", 2, 12, 2, 21, "to_np")]
    found = tensor_again({"train.py": code}, stack)
    assert found is not None and found.line == 5
