"""Silence says that nothing is wrong: what was not observed is a result of its own, in every command and format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.launch import Request
from graphdoc.launch.keep import Kept, last_run, observed
from graphdoc.model import Observed, Report, Run
from graphdoc.render import FORMATS, render
from graphdoc.render.story import NO_TORCH

HEALTHY = "import torch\n(torch.ones(2, requires_grad=True) ** 2).sum().backward()\nprint('trained')\n"
TWICE = "import torch\ny = (torch.ones(2, requires_grad=True) ** 2).sum()\ny.backward()\ny.backward()\n"


REPORTS = ("--report", "json:r.json", "--report", "sarif:r.sarif", "--report", "html:r.html")

CASES = {
    "killed": (HEALTHY + "import os\nos.kill(os.getpid(), 9)\n", [], (), "ended by SIGKILL"),
    "isolated": (TWICE, [], ("-I",), "-I, -E or -S"),
    "no-environment": (TWICE, [], ("-E",), "-I, -E or -S"),
    "command-isolated": (TWICE, ["--", sys.executable, "-I", "train.py"], (), "no Python process was seen"),
    "command-without-environment": (TWICE, ["--", "env", "-i", sys.executable, "train.py"], (), "no Python process"),
    "full-disk": (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + TWICE,
        [],
        (),
        "what was seen could not be written",
    ),
    "another-graphdoc": (
        "import sys, types\nsys.modules['graphdoc'] = types.ModuleType('graphdoc')\n"
        "sys.modules['graphdoc'].__file__ = '/x/graphdoc.py'\n" + TWICE,
        [],
        (),
        "the program has another package called graphdoc",
    ),
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("case", CASES)
def test_what_was_not_observed_is_told_by_every_command(case: str, tmp_path: Path) -> None:
    source, words, flags, why = CASES[case]
    (tmp_path / "train.py").write_text(source)
    done = graphdoc(tmp_path, "run", *REPORTS, *(words or ["train.py"]), flags=flags)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("graphdoc: ")]
    assert line.startswith("graphdoc: not observed: ") and why in line
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["outcome"] == "other-failure" and report["diagnoses"] == []
    assert report["observed"]["complete"] is False and why in report["observed"]["why"]
    invocation = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert why in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert "nothing is wrong" not in (tmp_path / "r.html").read_text().lower()
    kept = observed(last_run(tmp_path))
    assert not kept.complete and line == f"graphdoc: not observed: {kept.why}."
    assert case != "killed" or kept.why == "the program was ended by SIGKILL before it came to its end"
    shown = graphdoc(tmp_path, "show")
    assert shown.stdout == line + "\n"
    fixed = graphdoc(tmp_path, "fix", "--diff")
    assert (fixed.stdout, fixed.stderr, fixed.returncode) == ("", line + "\n", 1)


@pytest.mark.slow
def test_switched_off_is_not_observed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    done = graphdoc(tmp_path, "run", "train.py", GRAPHDOC_DISABLE="1")
    assert (done.stdout, done.returncode) == ("trained\n", 0)
    assert done.stderr == "graphdoc: not observed: GRAPHDOC_DISABLE is set.\n"


def test_a_healthy_run_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    done = graphdoc(tmp_path, "run", *REPORTS, "train.py", forked=True)
    assert (done.stdout, done.stderr, done.returncode) == ("trained\n", "", 0)
    assert json.loads((tmp_path / "r.json").read_text())["observed"] == {"complete": True, "torch": True, "why": ""}
    sarif = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]
    assert sarif["invocations"][0]["executionSuccessful"] is True
    assert graphdoc(tmp_path, "show").stdout == "Nothing is wrong with the graph of this run.\n"


@pytest.mark.parametrize("module", ["torch", "torch.nn"])
def test_a_torch_that_is_not_installed_is_not_there(module: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import sys\nsys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        f"try:\n    import {module}\nexcept ImportError as e:\n    print(e.name)\n"
    )
    done = graphdoc(tmp_path, "run", "--report", "json:r.json", "train.py")
    assert (done.stdout, done.stderr, done.returncode) == ("torch\n", "", 0)
    assert json.loads((tmp_path / "r.json").read_text())["observed"] == {"complete": True, "torch": False, "why": ""}


@pytest.mark.slow
def test_helpers_that_run_nothing_of_the_programs_are_not_missed(tmp_path: Path) -> None:
    """A fork server that has loaded torch, and the worker of a DataLoader that it makes."""
    (tmp_path / "train.py").write_text(
        "import multiprocessing, sys\nimport torch\nfrom torch.utils.data import DataLoader\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_forkserver_preload(['torch'])\n"
        "    list(DataLoader([1, 2], num_workers=1, multiprocessing_context='forkserver'))\n"
        "    sys.exit(3)\n"
    )
    done = graphdoc(tmp_path, "run", "train.py")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 3)


def test_without_torch_nothing_is_said_of_a_graph(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(3)\n")
    done = graphdoc(tmp_path, "run", *REPORTS, "train.py")
    assert (done.stderr, done.returncode) == ("", 3)
    assert json.loads((tmp_path / "r.json").read_text())["observed"] == {"complete": True, "torch": False, "why": ""}
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["invocations"][0]["executionSuccessful"] is False
    said = f"graphdoc: {NO_TORCH}\n"
    assert graphdoc(tmp_path, "show").stdout == said
    assert graphdoc(tmp_path, "fix").stderr == said
    # A command is often a launcher, and what failed may be a process that escaped: not silent then.
    launched = graphdoc(tmp_path, "run", "--", sys.executable, "train.py")
    assert (launched.stderr, launched.returncode) == (said, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, '-I', 'inner.py']).returncode)\n",
        "import os, sys\nos.execv(sys.executable, [sys.executable, '-I', 'inner.py'])\n",
    ],
    ids=["started", "replaced"],
)
def test_a_script_may_have_had_torch_in_a_process_that_escaped(source: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "inner.py").write_text(TWICE)
    done = graphdoc(tmp_path, "run", "train.py")
    assert done.returncode == 1 and "second time" in done.stderr
    assert done.stderr.splitlines()[-1] == f"graphdoc: {NO_TORCH}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "late"),
    [("self.w += 1", True), ("raise RuntimeError('the event loop is closed')", False)],
    ids=["autograd", "another"],
)
def test_an_error_that_came_as_python_shut_down_is_not_passed_over(deed: str, late: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import torch\nclass Model:\n    def __del__(self):\n        {deed}\n"
        "model = Model()\nmodel.w = torch.ones(2, requires_grad=True)\n"
    )
    done = graphdoc(tmp_path, "run", "train.py")
    assert done.returncode == 0 and "Exception ignored" in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("graphdoc: ")]
    why = "an error of autograd's was printed as Python shut down, too late to be examined"
    assert said == ([f"graphdoc: not observed: {why}."] if late else [])
    assert observed(last_run(tmp_path)).why == (why if late else "")


@pytest.mark.parametrize(
    ("states", "status", "expected"),
    [
        ("1.started", 0, (True, False, "")),
        ("1.started 1.loading 1.observed 1.ended", 0, (True, True, "")),
        ("1.started 1.loading 1.observed 1.ended", 1, (True, True, "")),
        ("1.started 1.loading 1.observed", 0, (True, True, "")),  # os._exit(0): the program says that all is well
        ("1.started 1.loading 1.observed", 1, (False, True, "by os._exit")),
        ("1.started 2.started 2.loading 2.observed", 1, (False, True, "ended from outside")),
        ("1.started 2.started 2.loading 2.ended", 0, (True, False, "")),
        ("1.started 1.loading", 1, (False, False, "began and was not seen to end")),
        ("1.started 1.loading 1.unobserved", 1, (False, True, "could not be observed")),
        ("1.started 1.loading 1.observed 1.lost 1.ended", 1, (False, True, "is the disk full")),
        ("1.started 1.loading 1.observed 1.lost 1.ended 1.evidence", 1, (True, True, "")),
        ("1.started 2.disabled", 0, (False, False, "GRAPHDOC_DISABLE was set for a process")),
        ("1.started 1.alone", 1, (True, False, "")),
        ("1.started 1.loading 1.observed 1.ended 1.late", 0, (False, True, "as Python shut down")),
        ("1.started 1.loading 1.observed 1.ended 1.late 1.evidence", 1, (True, True, "")),
        ("", 0, (False, False, "start-up hook did not run")),
    ],
)
def test_the_marks_of_the_processes(states: str, status: int, expected: tuple[bool, bool, str], tmp_path: Path) -> None:
    files = []
    for mark in states.split():
        if mark.endswith(".evidence"):
            files.append(tmp_path / f"evidence-{mark.partition('.')[0]}.json")
        else:
            (tmp_path / f"process-{mark}").touch()
    found = observed(Kept(tmp_path, Request(["train.py"]), status, evidence=tuple(files)))
    assert (found.complete, found.torch) == expected[:2]
    assert expected[2] in found.why and bool(expected[2]) is bool(found.why)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("state", "said"),
    [
        (Observed(False, True, "the disk was full"), "ot observed: the disk was full"),
        (Observed(True, False), "orch was not imported"),
        (Observed(), ""),
    ],
)
def test_every_format_tells_it(name: str, state: Observed, said: str) -> None:
    text = render(Report(Run(("train.py",)), "completed", observed=state), name)
    if name == "json":
        assert json.loads(text)["observed"] == state.to_json()
    elif said:
        assert said in text
        assert "nothing is wrong" not in text.lower()
    else:
        assert "observed" not in text and "imported" not in text
