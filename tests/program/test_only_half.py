"""Where a program says half precision in one place, and what that is for bfloat16."""

from __future__ import annotations

import pytest

from graphdoc.program.number_limits import only_half


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("net = net.half()", "{it}.half()"),
        ("dtype = torch.float16", "torch.float16"),
        ("net = net.to(torch.half)", "torch.half"),
        ("config = {'dtype': 'float16'}", "'float16'"),
        ("x = x.half() if net.weight.dtype == torch.float16 else x", ""),
        ("x = numpy.zeros(3, numpy.float16)", ""),
        ("half = len(rows) // 2; rows = rows[:half]", ""),
        ("x = x[: self.half]", ""),
    ],
)
def test_the_one_place_that_says_half_precision(line: str, pattern: str) -> None:
    found = only_half({"train.py": f"import numpy\nimport torch\n\n{line}\n"})
    assert (found[1][0] if found is not None else "") == pattern
    assert found is None or found[0].line == 4
