"""A run that went on and in which something was found: exit status, report, patch, and how to switch it off."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from commands import graphdoc
from test_cli_run import write

SICK = (Path(__file__).parents[1] / "causes/examples/step-missing/only-optimizer-never-stepped.py").read_text()


@pytest.mark.slow
def test_findings_are_warnings_and_leave_the_exit_status_alone(tmp_path: Path) -> None:
    write(tmp_path, SICK + "print('done')\n")
    done = graphdoc(tmp_path, "run", "--report", "json:r.json", "--report", "sarif:r.sarif", "train.py", forked=True)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.startswith("warning[GD706]: ")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["outcome"], report["exception"]) == ("completed", None)
    assert [d["cause"] for d in report["diagnoses"]] == ["step-missing"]
    (result,) = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("GD706", "warning")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "status", "told"), [(["--strict"], 1, True), (["--no-audit", "--strict"], 0, False)])
def test_options(tmp_path: Path, words: list[str], status: int, told: bool) -> None:
    write(tmp_path, SICK)
    done = graphdoc(tmp_path, "run", *words, "train.py", forked=True)
    assert (done.returncode, "GD706" in done.stderr) == (status, told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status"), [("raise KeyboardInterrupt", -2), ("raise SystemExit(3)", 3), ("{}['missing']", 1)]
)
def test_told_after_an_end_of_another_kind(tmp_path: Path, end: str, status: int) -> None:
    write(tmp_path, f"{SICK}{end}\n")
    done = graphdoc(tmp_path, "run", "--report", "json:r.json", "train.py", forked=status > 0)
    assert done.returncode == status
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["outcome"], [d["cause"] for d in report["diagnoses"]]) == ("other-failure", ["step-missing"])


@pytest.mark.slow
def test_patch_is_tried_and_what_was_found_is_gone(tmp_path: Path) -> None:
    write(tmp_path, SICK.replace("torch.optim.SGD(model", "optimizer := torch.optim.SGD(model"))
    graphdoc(tmp_path, "run", "train.py", forked=True)
    done = graphdoc(tmp_path, "fix", "--diff", "--report", "json:r.json")
    assert done.returncode == 0, done.stderr
    assert "+        optimizer.step()\n" in done.stdout
    (fix,) = json.loads((tmp_path / "r.json").read_text())["diagnoses"][0]["fixes"]
    assert fix["verified"] is True, fix
