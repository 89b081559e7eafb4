"""The pytest plugin in real pytest runs: what it says of which test, and what it leaves alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

CARRIED = """\
def train(cell, steps):
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    state = torch.zeros(1, 4)
    for _ in range(steps):
        state = torch.tanh(cell(state))
        loss = state.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
"""

SUITE = f"""\
import unittest

import pytest
import torch


{CARRIED}

@pytest.fixture
def made_in_setup():
    weight = torch.ones(2, requires_grad=True)
    return weight.exp()


def test_healthy():
    assert train(torch.nn.Linear(4, 4), 1) is not None


def test_carried():
    train(torch.nn.Linear(4, 4), 3)


def test_expected():
    with pytest.raises(RuntimeError, match="second time"):
        train(torch.nn.Linear(4, 4), 3)


def test_expected_and_then_another_fault():
    with pytest.raises(RuntimeError):
        train(torch.nn.Linear(4, 4), 3)
    raise KeyError("unrelated")


@pytest.mark.xfail
def test_known_to_fail():
    train(torch.nn.Linear(4, 4), 3)


def test_of_a_fixture(made_in_setup):
    made_in_setup.sum().backward()
    made_in_setup.mean().backward()


class TestOld(unittest.TestCase):
    def test_no_gradient(self):
        loss = torch.nn.Linear(4, 1)(torch.ones(1, 4)).sum()
        loss = torch.tensor(loss.item())
        loss.backward()
"""


# The file is newer than the process, and pytest has compiled assertions of its own into it: it is still what ran.
CONFTEST = "import pathlib; pathlib.Path(__file__).with_name('test_model.py').touch()\n"


def write(folder: Path) -> None:
    """Put the suite above into a folder."""
    (folder / "test_model.py").write_text(SUITE)
    (folder / "conftest.py").write_text(CONFTEST)


def places(output: str) -> list[tuple[str, ...]]:
    """Code and first place of each section."""
    found = [re.search(r"error\[(GD\d+)\](?s:.*?)--> (\S+)", text) for text in sections(output).values()]
    return sorted(match.groups() for match in found if match)


def run_pytest(folder: Path, *words: str, environment: dict[str, str] | None = None) -> str:
    """Run pytest in ``folder`` as a user would; its output."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GRAPHDOC"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=folder, env={**env, **(environment or {})}, capture_output=True, timeout=300)
    return done.stdout.decode() + done.stderr.decode()


def sections(output: str) -> dict[str, str]:
    """The section that graphdoc has added to each failing test's report."""
    found = {}
    for part in re.split(r"(?m)^_{3,} (?=\S+ _{3,}$)", output)[1:]:
        name, _, text = part.partition(" ")
        if "- graphdoc -" in text:
            found[name] = text.split("- graphdoc -", 1)[1]
    return found


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One run of the suite above: its folder and what was printed."""
    folder = tmp_path_factory.mktemp("suite")
    write(folder)
    return folder, run_pytest(folder, "--graphdoc", "--junitxml=junit.xml")


@pytest.mark.slow
def test_each_fault_of_the_graph_gets_its_section_and_nothing_else_does(suite: tuple[Path, str]) -> None:
    _, output = suite
    found = sections(output)
    assert sorted(found) == ["TestOld.test_no_gradient", "test_carried", "test_of_a_fixture"], output
    assert "error[GD101]" in found["test_carried"] and "--> test_model.py:11:9" in found["test_carried"]
    assert "error[GD104]" in found["test_of_a_fixture"] and "--> test_model.py:50:5" in found["test_of_a_fixture"]
    # Only a second run, of this test alone, tells where the graph was left.
    assert "`item()` takes" in found["TestOld.test_no_gradient"]
    assert "4 failed, 2 passed, 1 xfailed" in output


@pytest.mark.slow
def test_a_test_is_observed_by_itself(suite: tuple[Path, str]) -> None:
    folder, output = suite
    assert "backward #1" in sections(output)["test_carried"]  # the healthy test before it called backward as well
    events = [json.loads(f.read_text())["events"] for f in sorted(folder.glob(".graphdoc/*/evidence-*.json"))]
    assert [sum(1 for e in of if e["kind"] == "backward") for of in events] == [2, 2, 1]
    assert all(of[0]["index"] == 0 for of in events)


@pytest.mark.slow
def test_the_diagnosis_is_in_the_junit_report(suite: tuple[Path, str]) -> None:
    folder, _ = suite
    cases = {c.get("name"): c for c in ET.parse(folder / "junit.xml").iter("testcase")}
    told = cases["test_carried"].find("failure")
    assert told is not None and "error[GD101]" in str(told.text)
    other = cases["test_expected_and_then_another_fault"].find("failure")
    assert other is not None and "graphdoc" not in str(other.text)


@pytest.mark.slow
def test_every_diagnosed_test_is_named_at_the_end_with_its_run(suite: tuple[Path, str]) -> None:
    folder, output = suite
    lines = re.findall(r"(?m)^(GD\d+) at test_model.py:\d+ in (\S+): graphdoc fix (\S+)$", output)
    assert [name.partition("::")[2] for _, name, _ in lines] == [
        "test_carried",
        "test_of_a_fixture",
        "TestOld::test_no_gradient",
    ]
    for _, name, place in lines:
        shown = sections(output)[name.partition("::")[2].replace("::", ".")]
        commands = re.findall(r"graphdoc fix[^`\n]* --[^`\n]*", shown)
        assert f"graphdoc fix {place} --diff" in commands and all(place in c for c in commands)
        request = json.loads((folder / place / "run.json").read_text())["request"]
        assert request["kind"] == "module" and request["command"][0] == "pytest"
        assert request["command"][-1] == name and "--graphdoc" in request["command"]


@pytest.mark.slow
def test_with_xdist_the_workers_find_the_same(suite: tuple[Path, str], tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\ngraphdoc = true\naddopts = -n2\n")
    output = run_pytest(tmp_path)
    assert places(output) == places(suite[1]) and len(places(output)) == 3, output
    assert len(re.findall(r"(?m)^GD\d+ at .*: graphdoc fix \.graphdoc/", output)) == 3


def test_off_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(
        "import sys\n\ndef test_nothing_is_loaded():\n"
        "    assert [m for m in sys.modules if m.startswith('graphdoc.')] == "
        "['graphdoc.doors', 'graphdoc.doors.pytest_plugin']\n"
    )
    assert "1 passed" in run_pytest(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\ngraphdoc = true\n")
    assert "1 passed" in run_pytest(tmp_path, "--no-graphdoc")


@pytest.mark.slow
def test_fix_works_on_the_failing_test_alone(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(
        f"import torch\n\n\n{CARRIED}\n\ndef test_carried():\n    train(torch.nn.Linear(4, 4), 3)\n\n\n"
        "def test_other():\n    raise SystemExit('the whole suite was run')\n"
    )
    run_pytest(tmp_path, "--graphdoc", "test_model.py::test_carried", "test_model.py")
    command = [sys.executable, "-m", "graphdoc", "fix", "--unsafe"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "not verified" not in done.stdout
    assert "state = state.detach()" in (tmp_path / "test_model.py").read_text()
    assert "1 passed" in run_pytest(tmp_path, "test_model.py::test_carried")


@pytest.mark.slow
def test_in_a_run_that_is_observed_as_a_whole_nothing_is_done_twice(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(
        f"import torch\n\n\n{CARRIED}\n\ndef test_carried():\n    train(torch.nn.Linear(4, 4), 3)\n"
    )
    command = [sys.executable, "-m", "graphdoc", "run", "-m", "pytest", "--graphdoc", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "error[GD101]" in done.stderr and "graphdoc -" not in done.stdout
    assert len(list((tmp_path / ".graphdoc").glob("*/run.json"))) == 1
