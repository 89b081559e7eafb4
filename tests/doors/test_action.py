"""The GitHub action: its file as GitHub's own schema has it, and its step run as a runner would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_review import report
from test_review import repository as repository

ACTION = Path(__file__).resolve().parents[2] / "action.yml"
SICK = "import sys, torch\nw = torch.ones(2, requires_grad=True)\ny = (w * w).sum()\ny.backward()\ny.backward()\n"


def step(folder: Path, command: str, fix: str = "false") -> tuple[int, dict[str, str], str]:
    """Run the action's second step; its status, its outputs, and what it wrote into the job's log."""
    script = yaml.safe_load(ACTION.read_text())["runs"]["steps"][1]["run"]
    output, summary = folder / "output.txt", folder / "summary.md"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GRAPHDOC", "PYTEST"))}
    env |= {"COMMAND": command, "FIX": fix, "RUNNER_TEMP": str(folder), "GITHUB_ACTIONS": "true"}
    env |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    # GitHub runs `shell: bash` so.
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, outputs, done.stdout + done.stderr


def test_the_file_is_an_action() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    document = yaml.safe_load(ACTION.read_text())
    # What a workflow's author writes reaches the shell as a variable, never as a part of the script.
    assert not [s for s in document["runs"]["steps"] if "${{" in s["run"]]


@pytest.mark.slow
def test_a_failing_job_fails_as_before_and_has_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "train it.py").write_text(SICK)
    status, outputs, log = step(tmp_path, "'train it.py' --name \"a b\"", fix="true")
    assert status == 1 and outputs["code"] == "GD107", log
    assert "::error title=GD107" in log and "error[GD107]" in log
    report = Path(outputs["report"])
    assert {f.name for f in report.iterdir()} == {"report.json", "report.sarif", "report.md", "fix.patch", "fix.json"}
    assert "-y.backward()" in (report / "fix.patch").read_text()
    assert "GD107" in (tmp_path / "summary.md").read_text()


@pytest.mark.slow
def test_a_job_that_ends_well_has_no_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SICK.rsplit("y.backward()", 1)[0])
    status, outputs, _ = step(tmp_path, "train.py")
    assert status == 0 and outputs["code"] == ""


@pytest.fixture
def told() -> dict[str, object]:
    return report()


def review(folder: Path, head: str = "HEAD") -> tuple[int, str, list[str]]:
    """Run the action's third step with a `gh` that writes down what it is given: status, log, arguments."""
    script = yaml.safe_load(ACTION.read_text())["runs"]["steps"][2]["run"]
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "gh").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$REPORT/gh.txt"\nexit ${GH_STATUS:-0}\n')
    (tools / "gh").chmod(0o755)
    env = {**os.environ, "REPORT": str(folder), "BASE": "main", "HEAD": head, "NUMBER": "7", "GITHUB_REPOSITORY": "a/b"}
    env["PATH"] = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    said = folder / "gh.txt"
    return done.returncode, done.stdout + done.stderr, said.read_text().splitlines() if said.exists() else []


def test_a_patch_on_changed_lines_is_posted_as_a_review(
    repository: Path, monkeypatch: pytest.MonkeyPatch, told: dict[str, object]
) -> None:
    (repository / "report.json").write_text(json.dumps(told))
    status, log, words = review(repository)
    assert status == 0 and words[:4] == ["api", "--method", "POST", "repos/a/b/pulls/7/reviews"], log
    sent = json.loads((repository / "review.json").read_text())
    assert (sent["commit_id"], sent["event"], len(sent["comments"])) == ("HEAD", "COMMENT", 2)
    monkeypatch.setenv("GH_STATUS", "1")
    status, log, _ = review(repository)
    assert status == 0 and "::notice::graphdoc could not post" in log


def test_a_fix_that_was_tried_is_posted_before_one_that_was_not(repository: Path, told: dict[str, object]) -> None:
    (repository / "report.json").write_text(json.dumps(told))
    (repository / "fix.json").write_text('{"diagnoses": []}')
    status, _, words = review(repository)
    assert status == 0 and words == []
