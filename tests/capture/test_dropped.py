"""Which calls of detach() are statements of their own, on a name that was bound in the straight line before."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from graphdoc.capture.audit.constants import _drops

BODIES = [
    ("n = net(x).max(1).values\nn.detach()", ["net(x).max(1).values"]),
    ("n = net(x)\nm = n * 2\nn.detach()\nm.detach()", ["net(x)", "n * 2"]),
    ("n = net(x)\nn = n.detach()", []),
    ("n = net(x)\nprint(n.detach())", []),
    ("n = net(x)\nif x:\n    n.detach()", []),
    ("if x:\n    n = net(x)\nn.detach()", []),
    ("n, m = net(x)\nn.detach()", []),
    ("x.detach()", []),
    ("x.state = net(x)\nx.state.detach()", []),
    ("n = net(x)\nn.detach_()", []),
    ("n = net(x)\nn.detach(1)", []),
]


@pytest.mark.parametrize(("body", "values"), BODIES)
def test_drops(body, values):
    source = f"def f(net, x):\n{textwrap.indent(body, '    ')}\n    return net\n"
    space: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), space)
    lines = source.splitlines()
    found = [drop.value for drop in _drops(space["f"].__code__)]
    assert [lines[line - 1][start:end] for line, start, _, end in found] == values
