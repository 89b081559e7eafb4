"""Which operand an operation has saved, by the names of the operation and of what it saves."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.writers import saved_operand

IMPORTS = "import torch\nimport torch.nn.functional as F\n"


def operand(code: str, op: str, attribute: str) -> str:
    frame = Frame("train.py", 3, 1, 3, len(code) + 1, "<module>", True)
    found = saved_operand({"train.py": f"{IMPORTS}{code}\n"}, frame, op, attribute)
    return code[found.column - 1 : found.end_column - 1] if found is not None else ""


@pytest.mark.parametrize(
    ("code", "op", "attribute", "saved"),
    [
        ("body.view.norm(dim=1)", "LinalgVectorNormBackward0", "_saved_self", "body.view"),
        ("torch.linalg.vector_norm(x, dim=1)", "LinalgVectorNormBackward0", "_saved_self", "x"),
        ("F.log_softmax(x, dim=1)", "LogSoftmaxBackward0", "_saved_self", "x"),
        ("x.square()", "PowBackward0", "_saved_self", "x"),
        ("torch.matmul(a, b)", "MmBackward0", "_saved_mat2", "b"),
        ("torch.matmul(a, other=b)", "MmBackward0", "_saved_mat2", ""),
        ("x.norm(dim=1)", "MulBackward0", "_saved_self", ""),
    ],
)
def test_the_operand_of_the_operation(code: str, op: str, attribute: str, saved: str) -> None:
    assert operand(code, op, attribute) == saved
