"""The extension in a real kernel: what a cell's failure shows, and the cell as ``%graphdoc fix`` mends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

pytestmark = pytest.mark.slow

MODEL = """\
import torch
%matplotlib_or_not = 1
"""

MADE = """\
def make(size):
    cell = torch.nn.Linear(size, size)
    return cell, torch.optim.SGD(cell.parameters(), lr=0.1)
"""

TRAIN = """\
%precision 3
cell, optimizer = make(4)
state = torch.zeros(1, 4)
for _ in range(3):
    state = torch.tanh(cell(state))
    loss = state.pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(folder: Path, *sources: str) -> list[Any]:
    """The cells of a notebook after a real kernel has run all of them, errors or not."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(
        notebook, timeout=240, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    ).execute()
    return list(notebook.cells)


def printed(cell: Any) -> str:
    """What a cell shows as plain text, tracebacks left out."""
    texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    return "\n".join(texts)


def test_a_failed_cell_is_followed_by_the_diagnosis_and_mended(tmp_path: Path) -> None:
    cells = run(tmp_path, "%load_ext graphdoc", "import torch", MADE, TRAIN, "%graphdoc fix", "1 + 1", "1 / 0")
    output = printed(cells[3])
    assert [o.output_type for o in cells[3].outputs][-2:] == ["error", "display_data"], output
    assert "error[GD101]" in output and "--> In[4]:5:5" in output
    html = cells[3].outputs[-1]["data"]["text/html"]
    assert html.startswith("<pre") and "GD101" in html and "<script" not in html
    mended = printed(cells[4])
    assert "# In[4], mended\n%precision 3\ncell, optimizer = make(4)" in mended
    assert "    optimizer.step()\n    state = state.detach()\n" in mended
    assert printed(cells[5]) == "2"
    assert [o.output_type for o in cells[6].outputs] == ["error"]
    assert len(list((tmp_path / ".graphdoc").glob("*/run.json"))) == 1


def test_what_one_cell_makes_another_one_uses(tmp_path: Path) -> None:
    cells = run(
        tmp_path,
        "import torch\nw = torch.ones(3, requires_grad=True)\nearly = w.exp()",
        "%load_ext graphdoc",
        "loss = (w * w).sum()\nloss.backward()",
        "loss.backward()",
        "early.sum().backward()",
        "early.mean().backward()",
        "try:\n    early.sum().backward()\nexcept RuntimeError:\n    print('caught')",
    )
    told = printed(cells[3])
    assert re.search(r"error\[GD1\d\d\]", told) and "In[3]" in told and "In[4]" in told
    assert "before it was observed" not in told
    assert printed(cells[4]) == ""
    assert "before it was observed" in printed(cells[5])
    assert printed(cells[6]).strip() == "caught"


def test_a_cell_under_a_magic_for_time_is_the_cell_itself(tmp_path: Path) -> None:
    timed = "\n%%time\n\n# höhe\n%precision 3\ny = torch.exp(w)\ny.mul_(2); y.sum().backward()"
    cells = run(
        tmp_path,
        "%load_ext graphdoc\nimport torch\nw = torch.ones(3, requires_grad=True)",
        timed,
        "%graphdoc fix",
        "%time y = torch.exp(w); y.mul_(2); y.sum().backward()",
        "%%time\nkept = torch.exp(w * 2).sum()\nkept.backward()",
        "%%time\nkept.backward()",
        "%%timeit -n 1 -r 1\ny = w.sigmoid()\ny.mul_(2).sum().backward()",
    )
    told = printed(cells[1])
    assert "error[GD203]: `y` is changed in place" in told and "--> In[2]:7:1" in told, told
    assert "%graphdoc fix" in told and "`graphdoc fix" not in told and "not tried]" in told
    assert timed.replace("y.mul_(2);", "y = y.mul(2);").strip() in printed(cells[2])
    line = printed(cells[3])
    assert "--> In[4]:1" in line and "ipython" not in line.replace("get_ipython", "") and "help:" not in line
    twice = printed(cells[5])
    assert "--> In[5]:3\n3 | kept.backward()" in twice and "--> In[6]:2:1" in twice, twice
    assert "--> In[7]:3" in printed(cells[6])


def test_a_function_of_another_cell_that_binds_a_name_of_the_session(tmp_path: Path) -> None:
    step = "def step(x):\n    global state\n    state = torch.tanh(cell(state) + x)\n    state.sum().backward()\n"
    cells = run(
        tmp_path,
        "%load_ext graphdoc\nimport torch\ncell = torch.nn.Linear(4, 4)\nstate = torch.zeros(1, 4)",
        step,
        "for _ in range(3):\n    step(torch.ones(4))",
        "%graphdoc fix",
    )
    assert "error[GD101]" in printed(cells[2]) and "--> In[2]:3:5" in printed(cells[2])
    assert "    step(torch.ones(4))\n    state = state.detach()\n" in printed(cells[3])
