"""GRAPHDOC_OBSERVE in real processes: what is observed, what is refused, and that nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SICK = """\
import os, sys
print(sorted(name for name in os.environ if name.startswith("PYTHON")), sys.path[1:2])
import torch
w = torch.ones(3, requires_grad=True)
y = (w * w).sum()
y.backward()
y.backward()
"""


def run(folder: Path, *words: str, out: str = "", **more: object) -> subprocess.CompletedProcess[str]:
    """Start Python in ``folder``, with the variable set to ``out`` if there is one."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRAPHDOC", "COV"))}
    env |= {"GRAPHDOC_OBSERVE": out} if out else {}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, **more)  # type: ignore[call-overload]


@pytest.mark.slow
def test_a_program_that_nobody_wraps_is_observed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SICK)
    out = tmp_path / "seen"
    plain = run(tmp_path, "train.py")
    seen = run(tmp_path, "train.py", out=str(out))
    assert seen.returncode == plain.returncode == 1
    assert seen.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    told = run(tmp_path, "-m", "graphdoc", "show", str(out), "--report", f"json:{tmp_path / 'r.json'}", out=str(out))
    assert "error[GD107]" in told.stdout and "--> train.py:7:1" in told.stdout
    assert json.loads((tmp_path / "r.json").read_text())["run"]["exit_status"] == 1
    assert len(list(out.glob("evidence-*.json"))) == 1  # that of the program, none of graphdoc's own command


@pytest.mark.slow
def test_what_the_program_starts_is_observed_and_what_ends_well_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SICK)
    (tmp_path / "entry.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.run(['sh', '-c', sys.executable + ' train.py']).returncode)\n"
    )
    out = tmp_path / "seen"
    assert run(tmp_path, "entry.py", out=str(out)).returncode == 1
    assert json.loads((out / "run.json").read_text())["request"]["command"] == [sys.executable, "entry.py"]
    assert "error[GD107]" in run(tmp_path, "-m", "graphdoc", "show", str(out)).stdout
    quiet = run(tmp_path, "-c", "print(1)", out=str(tmp_path / "other"))
    assert (quiet.stdout, quiet.stderr, quiet.returncode) == ("1\n", "", 0)
    assert not list((tmp_path / "other").glob("evidence-*"))


def test_a_folder_that_others_can_write_into_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    done = run(tmp_path, "-c", "print(1)", out=str(shared))
    assert done.stdout == "1\n" and done.returncode == 0
    assert done.stderr.startswith("graphdoc: not observed, because ") and len(done.stderr.splitlines()) == 1
    assert list(shared.iterdir()) == []


def test_a_folder_that_depends_on_where_one_stands_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", "print(1)", out="seen")
    assert done.stdout == "1\n" and "absolute path" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can start such a process")
def test_other_rights_than_the_users_are_refused(tmp_path: Path) -> None:
    code = "from graphdoc.launch import activation; from pathlib import Path; import os; os.setresuid(0, 65534, 0)"
    done = run(tmp_path, "-c", f"{code}; print(activation.refusal(Path('/tmp/seen')))")
    assert done.stdout == "this process has other rights than the user who has started it\n", done.stderr


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_a_python_that_ignores_the_environment_ignores_the_variable(tmp_path: Path, option: str) -> None:
    done = run(tmp_path, option, "-c", "print(1)", out=str(tmp_path / "seen"))
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert not (tmp_path / "seen").exists()
