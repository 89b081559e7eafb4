"""Whether what a name stands for after a statement is read: on some way from there, before it is bound anew."""

from __future__ import annotations

import pytest

from graphdoc.source.module import Source
from graphdoc.source.scopes import is_read_later

BODIES = [
    ("x.add_(1)  # at\nprint(x)", True),
    ("x.add_(1)  # at\nx = f()\nprint(x)", False),
    ("x.add_(1)  # at\nx = f(x)", True),
    ("x.add_(1)  # at\nfor x in rows:\n    print(x)", False),
    ("x.add_(1)  # at\nfor y in x:\n    print(y)", True),
    ("x.add_(1)  # at\nif c:\n    x = f()\nprint(x)", True),
    ("if c:\n    x.add_(1)  # at\nelse:\n    print(x)", False),
    ("if c:\n    x.add_(1)  # at\nprint(x)", True),
    ("for i in rows:\n    print(x)\n    x.add_(1)  # at", True),
    ("for i in rows:\n    x = f()\n    print(x)\n    x.add_(1)  # at", False),
    ("for x in rows:\n    print(x)\n    x.add_(1)  # at", False),
    ("for i in rows:\n    if c:\n        x.add_(1)  # at", False),
    ("while x.any():\n    x.add_(1)  # at", True),
    ("def g():\n    return x\nx.add_(1)  # at", True),
    ("try:\n    x.add_(1)  # at\nfinally:\n    print(x)", True),
    ("return x.add_(1)  # at", True),
]


@pytest.mark.parametrize("scope", ["", "def f(x):\n"])
@pytest.mark.parametrize(("body", "read"), BODIES)
def test_a_name_is_read_later(scope: str, body: str, read: bool) -> None:
    indented = "".join(f"    {line}\n" if scope else f"{line}\n" for line in body.splitlines())
    source = Source("train.py", scope + indented)
    line = next(n for n, text in enumerate(source.text.splitlines(), 1) if text.endswith("# at"))
    at = next(s for s in source.node_statements() if s.lineno == line)
    assert is_read_later(source, at, "x") is read
