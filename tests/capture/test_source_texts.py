"""A program that is edited while it runs: what is told and patched is the text that ran, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import graphdoc
from observed import Observed, run, script

from graphdoc.evidence import Evidence
from graphdoc.processes import changed_sources

EDIT = """
def edit(name, old, new):
    import pathlib
    path = pathlib.Path(__file__).parent / name
    path.write_text(path.read_text().replace(old, new))
"""
SCRIPT = (
    EDIT
    + """
w = torch.ones(3, requires_grad=True)
def step():
    return (w * w).sum()
loss = step()
loss.backward()
{edit}
loss.backward()
"""
)
MODEL = """
import torch
w = torch.ones(3, requires_grad=True)

class Net:
    def loss(self):
        return (w * w).sum()

def again(loss):
    loss.backward()
"""


def text_of(seen: Observed, name: str) -> str | None:
    return next((t for f, t in seen.only.sources.items() if f.endswith(name)), None)


def notes(seen: Observed) -> list[str]:
    return [line for line in seen.only.degraded if "edited" in line]


def test_the_scripts_own_text_is_the_one_that_ran(tmp_path: Path) -> None:
    path = script(tmp_path, SCRIPT.format(edit="edit('train.py', 'import torch', '# ' * 9 + chr(10) + 'import torch')"))
    before = path.read_text()
    seen = run(path)
    assert path.read_text() != before and text_of(seen, "train.py") == before
    assert len(notes(seen)) == 1 and "the text that ran" in notes(seen)[0]
    assert changed_sources(seen.only), "a patch would be for another program"


def test_a_file_that_nobody_edits_costs_no_word(tmp_path: Path) -> None:
    seen = run(script(tmp_path, SCRIPT.format(edit="pass")))
    assert notes(seen) == [] and changed_sources(seen.only) == []


IMPORTING = (
    EDIT + "import model\nnet = model.Net()\n{early}\nloss = net.loss()\nmodel.again(loss)\n{late}\nmodel.again(loss)\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_a_modules_text_is_held_from_the_first_backward_on(project: Path) -> None:
    edit = "edit('model.py', '* w', '* w * 2')"
    seen = run(script(project, IMPORTING.format(early="", late=edit)))
    assert text_of(seen, "model.py") == MODEL and len(notes(seen)) == 1


def test_a_module_edited_before_that_is_not_shown(project: Path) -> None:
    edit = "edit('model.py', '* w', '* w * 2')"
    seen = run(script(project, IMPORTING.format(early=edit, late="")))
    assert text_of(seen, "model.py") is None
    assert "not known" in notes(seen)[0]
    assert any(name.endswith("model.py") for name in changed_sources(seen.only))


def test_a_module_that_the_program_writes_itself_is_shown(project: Path) -> None:
    """It is younger than the process; the code that runs comes from its text."""
    code = f"import pathlib\npathlib.Path(__file__).with_name('fresh.py').write_text({MODEL!r})\nimport fresh\n"
    seen = run(script(project, code + "loss = fresh.Net().loss()\nfresh.again(loss)\nfresh.again(loss)\n"))
    assert text_of(seen, "fresh.py") == MODEL and notes(seen) == []


def test_a_constant_is_part_of_the_program(project: Path) -> None:
    (project / "model.py").write_text(MODEL.replace("(w * w)", "(w * w * 10)"))
    seen = run(script(project, IMPORTING.format(early="edit('model.py', '10', '20')", late="")))
    assert text_of(seen, "model.py") is None


def test_the_report_and_the_patch_of_an_edited_script(tmp_path: Path) -> None:
    source = "import torch\n" + SCRIPT.format(
        edit="edit('train.py', 'import torch', 'import os' + chr(10) + 'import torch')"
    )
    (tmp_path / "train.py").write_text(source)
    ran = graphdoc(tmp_path, "run", "train.py", forked=True, NO_COLOR="1")
    assert "train.py was edited while the program ran" in ran.stderr, ran.stderr
    place = next(line for line in ran.stderr.splitlines() if line.lstrip().startswith("--> train.py"))
    number = int(place.split(":")[1])
    shown = source.splitlines()[number - 1].strip()
    assert any(line.startswith(f"{number} | ") and shown in line for line in map(str.strip, ran.stderr.splitlines()))
    done = graphdoc(tmp_path, "fix", "--diff")
    assert (done.returncode, done.stdout) == (2, "") and "has changed since the run" in done.stderr


def test_the_evidence_of_a_trial_does_not_speak_of_edits(project: Path) -> None:
    seen = run(script(project, IMPORTING.format(early="edit('model.py', '* w', '* w * 2')", late="")), mode="verify:1")
    assert all("edited" not in line for e in seen.evidence for line in e.degraded)
    assert all(isinstance(e, Evidence) for e in seen.evidence)


@pytest.mark.slow
def test_the_rest_of_a_compiled_function_is_no_other_text(tmp_path: Path) -> None:
    """Dynamo makes functions of its own of what follows a break in the graph."""
    text = """
import os
os.utime(__file__)
def step(w):
    loss = (w * w).sum()
    loss.backward()
    loss.backward()
torch.compile(step, backend="eager")(torch.ones(3, requires_grad=True))
"""
    seen = run(script(tmp_path, text))
    assert (text_of(seen, "train.py") or "").endswith(text) and notes(seen) == []
