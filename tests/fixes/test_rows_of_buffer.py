"""A list of rows in place of one buffer: what is rewritten, and where one tensor is wanted."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

HEAD = "import torch\ndef run(n):\n"
READ = "    for i in range(n):\n        loss = «v[i]».sum()\n"


def test_the_allocation_becomes_a_list_and_every_index_one_of_a_row() -> None:
    source = f"{HEAD}    v = torch.zeros(n, 3).float()\n    for i in range(n):\n        v[i, 0] = f(i)\n{READ}"
    assert fixed("rows_of_buffer", source, read="@0") == (
        f"{HEAD}    v = [row.clone() for row in torch.zeros(n, 3).float()]\n"
        "    for i in range(n):\n        v[i][0] = f(i)\n"
        "    for i in range(n):\n        loss = v[i].sum()\n"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"    v = torch.zeros(n, 3)\n{READ}    return v\n", "as a whole"),
        (f"    v = torch.zeros(n, 3)\n{READ}    print(v[:, 0])\n", "as a whole"),
        (f"    v = torch.zeros(n, 3)\n{READ}    print(v[chosen])\n", "as a whole"),
        (f"    v = old\n{READ}", "more than a new tensor"),
        (READ, "allocated"),
    ],
)
def test_one_tensor_that_is_wanted_stays_one(body: str, reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("rows_of_buffer", HEAD + body, read="@0")


def test_an_attribute_that_others_read_stays_a_tensor() -> None:
    method = (
        "    def run(self):\n        self.v = torch.zeros(2, 3)\n        for i in range(2):\n"
        "            «self.v[i]».sum()\n"
    )
    with pytest.raises(CannotFix, match="too"):
        fixed("rows_of_buffer", f"import torch\nclass A:\n{method}print(A().v)\n", read="@0")
