"""The GitHub action: its file as GitHub's own schema has it, and all its steps as a runner takes them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
import runner
import yaml
from github import GitHub, serving
from test_review import git

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
HEALTHY = """\
import sys

import torch

w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
"""
SICK = """\
state = torch.zeros(2)
for step in range(int(sys.argv[2])):
    state = torch.tanh(state + w)
    optimizer.zero_grad()
    state.sum().backward()
    optimizer.step()
"""


def test_the_file_is_an_action() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    document = yaml.safe_load(ACTION.read_text())
    # What a workflow's author writes reaches the shell as a variable, never as a part of the script.
    assert not [s for s in document["runs"]["steps"] if "${{" in s.get("run", "")]


def test_the_runner_reads_conditions_and_outputs_as_documented() -> None:
    contexts = {"inputs": {"fix": "True", "token": ""}, "steps": {"run": {"outputs": {"code": "GD101"}}}}
    for told, failed, expected in [
        ("inputs.fix == 'true' && steps.run.outputs.code != ''", False, True),
        ("inputs.fix == 'true'", True, False),
        ("always() && !(inputs.fix != 'true')", True, True),
        ("${{ failure() || inputs.token }}", False, False),
        ("always() && steps.none.outputs.code && inputs.missing.number", False, False),
    ]:
        assert runner.holds(told, contexts, failed) is expected, told
    assert runner.pairs("a=b=c\nlong<<E\none\ntwo\nE\n") == {"a": "b=c", "long": "one\ntwo"}
    with pytest.raises(AssertionError, match="Invalid format"):
        runner.pairs("no value")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Python's commands in which torch and all that graphdoc needs are there, and no graphdoc."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for own in site.glob("setuptools*"):  # older than the one that torch asks for, and before it on the path
        shutil.rmtree(own)
    (site / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


class Repository:
    """A pull request that adds ``jobs/train.py``, or a part of it, to a repository."""

    def __init__(self, folder: Path, before: str, after: str) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        (folder / "jobs").mkdir()
        self.script = folder / "jobs" / "train.py"
        self.base = self._commit(before)
        git(folder, "checkout", "-qb", "change")
        self.head = self._commit(after)

    def _commit(self, text: str) -> str:
        self.script.write_text(text)
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-qm", "a step")
        words = ["git", "rev-parse", "HEAD"]
        return subprocess.run(words, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()

    def use(self, python: Path, temp: Path, hub: GitHub, **inputs: str) -> runner.Done:
        """The action in a job of the pull request, whose own token is ``hub.writers[0]``."""
        temp.mkdir()
        ends = {"base": {"sha": self.base}, "head": {"sha": self.head}}
        event: dict[str, Any] = {"pull_request": {"number": hub.number, **ends}}
        variables = {"GITHUB_REPOSITORY": hub.repository, "GITHUB_API_URL": hub.place}
        variables["PATH"] = os.pathsep.join([str(python), os.environ["PATH"]])
        # Nothing is fetched: what a job would install stands beside it.
        variables |= {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": ""}
        context = {"token": hub.writers[0], "event": event}
        inputs = {"working-directory": "jobs", **{k.replace("_", "-"): v for k, v in inputs.items()}}
        return runner.use(ROOT, inputs, workspace=self.folder, temp=temp, github=context, variables=variables)

    def with_suggestions(self, comments: list[dict[str, Any]]) -> str:
        """The script once somebody has clicked on all of them."""
        lines = self.script.read_text().splitlines()
        for comment in sorted(comments, key=lambda c: -c["line"]):
            assert comment["path"] == "jobs/train.py"
            block = comment["body"].partition("```suggestion\n")[2].removesuffix("```")
            lines[comment.get("start_line", comment["line"]) - 1 : comment["line"]] = block.splitlines()
        return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_a_pull_request_that_fails_is_told_tried_and_reviewed(tmp_path: Path, python: Path) -> None:
    import torch

    repository = Repository(tmp_path / "checkout", HEALTHY, HEALTHY + SICK)
    with serving(GitHub("a/b", 7, repository.folder, repository.base, repository.head)) as hub:
        version = torch.__version__.partition("+")[0]
        words = {"command": "train.py '--the steps' 3", "fix": "true", "review": "true", "artifact": "told"}
        done = repository.use(python, tmp_path / "temp", hub, torch=version, **words)
    assert done.failed and len(done.ran) == 4 and done.outputs["code"] == "GD101", done.log
    assert "::error title=GD101" in done.log and "error[GD101]" in done.log and "GD101" in done.summary
    folder = Path(done.outputs["report"])
    assert {"report.json", "report.sarif", "report.md", "fix.patch", "fix.json"} <= {f.name for f in folder.iterdir()}
    (kept,) = done.used.values()
    assert (kept["name"], kept["path"]) == ("told", str(folder))
    (review,) = hub.taken
    assert "::notice::" not in done.log and review["commit_id"] == repository.head
    mended = repository.with_suggestions(review["comments"])
    assert mended != repository.script.read_text()
    git(repository.folder, "apply", "--directory=jobs", str(folder / "fix.patch"))
    assert mended == repository.script.read_text()
    command = [str(python / "python"), "train.py", "--steps", "3"]
    subprocess.run(command, cwd=repository.script.parent, check=True, timeout=120)
    installed = [str(python / "python"), "-c", "import graphdoc; print(graphdoc.__file__)"]
    where = subprocess.run(installed, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert where.startswith(str(python.parent))


@pytest.mark.slow
def test_a_job_whose_token_cannot_write_ends_as_its_program_does(tmp_path: Path, python: Path) -> None:
    repository = Repository(tmp_path / "checkout", HEALTHY, HEALTHY + SICK)
    with serving(GitHub("a/b", 7, repository.folder, repository.base, repository.head)) as hub:
        words = {"command": "train.py --steps 3", "review": "true", "token": "of a fork"}
        done = repository.use(python, tmp_path / "temp", hub, **words)
        assert done.failed and done.outputs["code"] == "GD101" and not hub.taken, done.log
        (notice,) = [line for line in done.log.splitlines() if line.startswith("::notice::")]
        assert notice == (
            "::notice::graphdoc could not post its review: graphdoc: 403 Resource not accessible by integration"
        )
        words = {"command": "train.py $(touch${IFS}taken);touch${IFS}taken 1", "fix": "true", "review": "true"}
        well = repository.use(python, tmp_path / "well", hub, **words)
        assert not well.failed and well.outputs["code"] == "" and len(well.ran) == 2, well.log
        assert not repository.script.with_name("taken").exists()


@pytest.mark.slow
def test_a_fault_on_lines_that_were_there_before_is_told_and_not_reviewed(tmp_path: Path, python: Path) -> None:
    repository = Repository(tmp_path / "checkout", HEALTHY + SICK, f"# a comment\n{HEALTHY}{SICK}")
    with serving(GitHub("a/b", 7, repository.folder, repository.base, repository.head)) as hub:
        done = repository.use(python, tmp_path / "temp", hub, command="train.py --steps 3", review="true")
    assert done.failed and done.outputs["code"] == "GD101" and "::notice::" not in done.log and not hub.taken, done.log
    assert json.loads(Path(done.outputs["report"], "review.json").read_text())["comments"] == []
