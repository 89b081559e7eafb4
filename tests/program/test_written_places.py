"""An expression that is taken to be written into, and from which nothing goes on."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.writers import is_only_written


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("layer.bias.data.zero_()", True),
        ("nn.init.constant_(layer.bias.data, 0.0)", True),
        ("layer.bias.data.copy_(other.data)", True),
        ("target.copy_(layer.bias.data)", False),
        ("init.normal_(layer.bias.data, std=s)", True),
        ("y = layer.bias.data.zero_()", False),
        ("keep(layer.bias.data)", False),
        ("layer.bias.data.tolist()", False),
    ],
)
def test_only_written(line: str, said: bool) -> None:
    start = line.index("layer.bias.data") + 1
    frame = Frame("a.py", 1, start, 1, start + len("layer.bias.data"))
    assert is_only_written({"a.py": line + "\n"}, frame) is said
