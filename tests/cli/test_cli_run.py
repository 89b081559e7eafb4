"""``graphdoc run`` as a user meets it: whole processes, real folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import graphdoc
from forked import run_forked

from graphdoc.cli.arguments import Asked, plain, quick, split

WITH_VALUE = {"--report", "--nan"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t.py", "--help", "--report", "x"], ([], "script", ["t.py", "--help", "--report", "x"])),
        (["--nan", "stop", "t.py", "--", "-m"], (["--nan", "stop"], "script", ["t.py", "--", "-m"])),
        (["--report", "json:f", "t.py"], (["--report", "json:f"], "script", ["t.py"])),
        (["--report=json:f", "t.py"], (["--report=json:f"], "script", ["t.py"])),
        (["-m", "pkg.mod", "--nan"], ([], "module", ["pkg.mod", "--nan"])),
        (["--nan", "off", "-mpkg", "-x"], (["--nan", "off"], "module", ["pkg", "-x"])),
        (["-m"], ([], "module", [])),
        (["--", "torchrun", "--nproc-per-node", "2"], ([], "command", ["torchrun", "--nproc-per-node", "2"])),
        (["--nan=off", "--", "-m"], (["--nan=off"], "command", ["-m"])),
        (["-", "x"], ([], "script", ["-", "x"])),
        (["--report"], (["--report"], "script", [])),
        ([], ([], "script", [])),
    ],
)
def test_options_end_where_the_programs_begin(words: list[str], expected: object) -> None:
    assert split(words, WITH_VALUE) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "t.py", "--nan"], ("script", ["t.py", "--nan"], [], Asked())),
        (["run", "--nan", "off", "--no-rerun", "-m", "t"], ("module", ["t"], [], Asked(rerun=False, nan="off"))),
        (["run", "--report", "json:f", "--report=html", "--", "t"], ("command", ["t"], ["json:f", "html"], Asked())),
        (["run", "--audit", "all", "--strict", "t.py"], ("script", ["t.py"], [], Asked(audit="all", strict=True))),
        (["run", "--baseline=a1b2", "t.py"], ("script", ["t.py"], [], Asked(baseline="a1b2"))),
        (["run", "--audit=off", "t.py"], ("script", ["t.py"], [], Asked(audit="off"))),
        (["run", "--capture", "learned", "t.py"], ("script", ["t.py"], [], Asked(capture="learned"))),
        (["run", "--capture=some", "t.py"], None),
        (["run", "--no-audit", "t.py"], ("script", ["t.py"], [], Asked(audit="off"))),
        (["run", "--audit=some", "t.py"], None),
        (["run", "--strict=yes", "t.py"], None),
        (["run", "--no-re", "t.py"], None),
        (["run", "--help"], None),
        (["run", "--report"], None),
        (["run", "-x", "t.py"], None),
        (["run", "-m"], None),
        (["run"], None),
        (["fix", "--diff"], None),
        (["--version"], None),
        ([], None),
    ],
)
def test_a_plain_line_is_read_without_typer(words: list[str], expected: object) -> None:
    assert quick(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        ["t.py", "--nan"],
        ["--nan=stop", "-m", "t", "x"],
        ["--report", "json:f", "--no-rerun", "--", "t"],
        ["-", "--"],
        ["--audit", "all", "--strict", "t.py"],
        ["--no-audit", "t.py"],
        ["--baseline", "a1b2", "t.py"],
        ["--capture=learned", "t.py"],
    ],
)
def test_typer_reads_the_same(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from graphdoc.cli import app

    seen = []

    def note(kind: str, arguments: list[str], reports: list[str], asked: Asked) -> int:
        seen.append((kind, list(arguments), list(reports), asked))
        return 0

    monkeypatch.setattr(app, "run_program", note)
    done = CliRunner().invoke(app.app, ["run", *words])
    assert done.exit_code == 0, done.output
    assert seen == [quick(["run", *words])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, "text")),
        (["GD101"], ("GD101", "text")),
        (["-", "--format", "json"], ("-", "json")),
        (["--format", "json", "a b"], ("a b", "json")),
        (["--format"], None),
        (["--format=json"], None),
        (["a", "b"], None),
        (["--help"], None),
        (["--", "a"], None),
    ],
)
def test_one_argument_and_a_format_are_read_without_typer(words: list[str], expected: object) -> None:
    assert plain(words, "text") == expected


def write(folder: Path, text: str, name: str = "train.py") -> None:
    (folder / name).write_text(text)


def test_the_program_has_everything_behind_its_name(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nprint(sys.argv[1:])\nsys.exit(3)\n")
    done = graphdoc(tmp_path, "run", "--no-rerun", "train.py", "--help", "--report", "nonsense", "--", "-m")
    assert done.stdout == "['--help', '--report', 'nonsense', '--', '-m']\n"
    assert done.stderr == ""
    assert done.returncode == 3


def test_module_and_command(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nprint(__name__, sys.argv[1:])\n")
    assert graphdoc(tmp_path, "run", "-m", "train", "--nan").stdout == "__main__ ['--nan']\n"
    done = graphdoc(tmp_path, "run", "--", "sh", "-c", "echo $0 $1; exit 4", "a", "--nan")
    assert (done.stdout, done.returncode) == ("a --nan\n", 4)
    assert done.stderr.startswith("graphdoc: not observed: no Python process was seen")


def test_an_ordinary_failure_is_none_of_our_business(tmp_path: Path) -> None:
    write(tmp_path, "def f(x):\n    return 1 / x\n\nprint('before')\nf(0)\n")
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    done = graphdoc(tmp_path, "run", "train.py")
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, 1)


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("text", "outcome"), [("", "completed"), ("raise SystemExit(3)", "other-failure")])
def test_a_report_is_written_whatever_happens(tmp_path: Path, text: str, outcome: str) -> None:
    write(tmp_path, text)
    done = graphdoc(tmp_path, "run", "--report", "json:r.json", "--report", "markdown:r.md", "train.py")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["schema_version"] == 1
    assert report["outcome"] == outcome
    assert report["run"]["command"] == ["train.py"]
    assert report["run"]["exit_status"] == done.returncode
    assert report["diagnoses"] == []
    assert (tmp_path / "r.md").exists()
    assert done.stderr == ""


def test_a_report_that_cannot_be_written_costs_a_line(tmp_path: Path) -> None:
    write(tmp_path, "raise SystemExit(3)")
    (tmp_path / "r.json").mkdir()
    done = graphdoc(tmp_path, "run", "--report", "json:r.json", "--report", "json:s.json", "train.py")
    assert done.stderr == "graphdoc: cannot write r.json: Is a directory\n"
    assert done.returncode == 3
    assert json.loads((tmp_path / "s.json").read_text())["outcome"] == "other-failure"


@pytest.mark.breadth(5)
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["gone.py"], "graphdoc: cannot open gone.py: No such file or directory"),
        (["nb.ipynb"], "graphdoc: nb.ipynb is a notebook, not a script: put `%load_ext graphdoc` into its first cell"),
        (["gone.ipynb"], "graphdoc: cannot open gone.ipynb: No such file or directory"),
        (["folder"], "graphdoc: folder is a folder without a __main__.py"),
        (["--report", "pdf", "ok.py"], "graphdoc: unknown report format 'pdf'; the formats are "),
        (
            ["--report", "json:none/r.json", "ok.py"],
            "graphdoc: --report json:none/r.json: the folder none does not exist",
        ),
        (["ok"], "graphdoc: cannot open ok: No such file or directory; did you mean ok.py?"),
        (
            ["sh", "ok.py"],
            "graphdoc: cannot open sh: No such file or directory; sh is a command: `graphdoc run -- sh …`",
        ),
        (["--", "ok.py"], "graphdoc: ok.py is a script, not a command: `graphdoc run ok.py`"),
        (["--", "no-such-command-here"], "graphdoc: no-such-command-here: command not found"),
    ],
)
def test_what_cannot_run_is_one_line_and_leaves_nothing(tmp_path: Path, words: list[str], line: str) -> None:
    write(tmp_path, "print('ran')")
    write(tmp_path, "print('ran')", "ok.py")
    (tmp_path / "nb.ipynb").write_text('{"cells": [], "nbformat": 4}')
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    done = graphdoc(tmp_path, "run", *words)
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1
    assert done.returncode == 2
    assert done.stdout == ""
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "text", [b"x = 1\n\nif x y:\n", b"x = '\xe9'\n", b"if 1:\n\tx = 1\n        y = 2\n"], ids=["bad", "latin", "tabs"]
)
def test_a_script_that_does_not_parse_ends_as_python_ends_it(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "bad.py").write_bytes(text)
    plain = subprocess.run([sys.executable, "bad.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    done = graphdoc(tmp_path, "run", "bad.py")
    assert "Error: " in plain.stderr
    assert (
        (done.stdout, done.stderr, done.returncode)
        == (plain.stdout, plain.stderr, plain.returncode)
        == ("", plain.stderr, 1)
    )


def test_nothing_to_run_and_unknown_options(tmp_path: Path) -> None:
    assert graphdoc(tmp_path, "run").returncode == 2
    assert graphdoc(tmp_path, "run", "--nonsense", "train.py").returncode == 2
    assert graphdoc(tmp_path, "run", "-m").returncode == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_script_that_warns_when_it_is_compiled_warns_once(tmp_path: Path) -> None:
    write(tmp_path, "x = 1 is 1\n")
    done = graphdoc(tmp_path, "run", "train.py")
    assert done.stderr.count("SyntaxWarning") == 1
    assert graphdoc(tmp_path, "run", "train.py", flags=("-W", "error")).returncode == 1


def test_without_a_place_to_keep_it_the_program_runs_all_the_same(tmp_path: Path) -> None:
    """As in a read-only folder, which root does not know; a file is in the way instead."""
    write(tmp_path, "print('ran')\nraise SystemExit(3)\n")
    (tmp_path / ".graphdoc").write_text("")
    temporary = tmp_path / "t"
    temporary.mkdir()
    done = graphdoc(tmp_path, "run", "train.py", TMPDIR=str(temporary))
    assert (done.stdout, done.returncode) == ("ran\n", 3)
    (folder,) = temporary.iterdir()
    told = f"what was recorded is in {folder} (`graphdoc fix {folder}`)"
    assert done.stderr == f"graphdoc: .graphdoc cannot be made here (File exists); {told}\n"
    assert (folder / "run.json").exists()
    (tmp_path / ".graphdoc").unlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    write(tmp_path, "print('ran')\n")
    tmp_path.chmod(0o555)
    try:
        done = graphdoc(tmp_path, "run", "train.py")
    finally:
        tmp_path.chmod(0o755)
    assert done.stdout == "ran\n" and done.returncode == 0
    assert ".graphdoc cannot be made here (Permission denied)" in done.stderr


def test_options_that_keep_the_hook_out_are_told(tmp_path: Path) -> None:
    write(tmp_path, "print('ran')\n")
    done = graphdoc(tmp_path, "run", "train.py", flags=("-E",))
    assert done.stdout == "ran\n"
    assert done.stderr == (
        "graphdoc: not observed: Python was started with -I, -E or -S, which keep graphdoc's start-up hook out.\n"
    )


def test_users_modules_do_not_stand_in_for_ours(tmp_path: Path) -> None:
    for name in ("random", "typing", "dataclasses", "signal", "json"):
        write(tmp_path, "raise RuntimeError('the wrong module')\n", f"{name}.py")
    write(tmp_path, "print('ran')\n")
    done = graphdoc(tmp_path, "run", "--report", "json:r", "train.py")
    assert (done.stdout, done.stderr) == ("ran\n", "")


AFTER = """
import sys
import graphdoc.cli.running as run
real = run.launch
def launch(*given):
    heavy = ("rich", "libcst", "torch", "typer", "graphdoc.diagnose", "graphdoc.causes", "graphdoc.render")
    print([m for m in sys.modules if m.startswith(heavy)], flush=True)
    return real(*given)
run.launch = launch
sys.argv = ["graphdoc", "run", "train.py"]
from graphdoc.__main__ import main
main()
"""


def test_the_program_starts_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    write(tmp_path, "print('ran')\n")
    done = subprocess.run([sys.executable, "-c", AFTER], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\nran\n", done.stderr


HELP = """
import sys
sys.argv = ["graphdoc", *sys.argv[1:]]
from graphdoc.__main__ import main
try:
    main()
finally:
    print([m for m in ("torch", "libcst", "rich") if m in sys.modules])
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["fix", "--help"], ["--version"], ["causes"]])
def test_help_imports_neither_torch_nor_libcst(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELP, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"
    assert len(done.stdout.splitlines()) > 1


CRASH = """
import torch
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
print("once", flush=True)
loss.backward()
"""


def test_a_crash_in_autograd_keeps_its_traceback_and_is_kept(tmp_path: Path) -> None:
    write(tmp_path, CRASH)
    plain = run_forked(tmp_path / "train.py")
    done = graphdoc(tmp_path, "run", "--report", "json:r.json", "train.py", NO_COLOR="1")
    assert done.stdout == "once\n"
    assert done.returncode == 1
    assert done.stderr.startswith(plain.stderr)
    last = json.loads((tmp_path / ".graphdoc" / "last.json").read_text())
    assert last["outcome"]["exit_status"] == 1
    assert last["outcome"]["troubles"] == []
    assert len(list((tmp_path / ".graphdoc" / last["runs"]).glob("evidence-*.json"))) == 1


@pytest.mark.slow
def test_nan_stop_ends_the_program_where_nan_is_met_and_tells_what_made_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "x = torch.zeros(3, requires_grad=True)\n"
        "distance = x.pow(2).sqrt()\n"
        "distance.sum().backward()\n"
        "print('trained')\n"
    )
    ran = {}
    for mode in ("stop", "off"):
        ran[mode] = graphdoc(tmp_path, "run", "--nan", mode, "train.py", forked=True)
    assert (ran["off"].returncode, ran["off"].stdout, ran["off"].stderr) == (0, "trained\n", "")
    assert (ran["stop"].returncode, ran["stop"].stdout) == (1, "")
    assert "FloatingPointError: nan in the gradients of 1 of 1 parameters" in ran["stop"].stderr
    assert "GD602" in ran["stop"].stderr and "train.py:3:" in ran["stop"].stderr
    assert "finite.py" not in ran["stop"].stderr and "witness.py" not in ran["stop"].stderr


@pytest.mark.slow
def test_nan_does_not_stop_a_scaler_that_looks_for_its_scale(tmp_path: Path) -> None:
    """Its first loss overflows, before any of its steps was seen."""
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "net = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        "scaler = torch.amp.GradScaler('cpu', init_scale=2.0**127)\n"
        "for _ in range(20):\n"
        "    optimizer.zero_grad()\n"
        "    scaler.scale(net(torch.ones(4, 2) * 50).pow(2).mean()).backward()\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()\n"
        "print('trained')\n"
    )
    ran = graphdoc(tmp_path, "run", "--nan", "stop", "train.py", forked=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "trained\n", "")


UNHELD = """\
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters()], lr=0.01)
for step in range(12):
    loss = (head(torch.relu(body(torch.randn(16, 4)))) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_head_that_no_optimizer_has_is_one_line_and_no_finding(tmp_path: Path) -> None:
    (tmp_path / "head.py").write_text(UNHELD)
    (tmp_path / "both.py").write_text(UNHELD.replace("body.parameters()]", "body.parameters(), *head.parameters()]"))
    done = graphdoc(tmp_path, "run", "--strict", "--report", "json:report.json", "head.py", forked=True)
    assert done.returncode == 0
    assert done.stderr.startswith("note: no optimizer uses the gradients of `head.*` (2 parameters)")
    assert not json.loads((tmp_path / "report.json").read_text())["diagnoses"]
    done = graphdoc(tmp_path, "run", "both.py", forked=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_without_the_word_run_is_one_line(tmp_path: Path) -> None:
    write(tmp_path, "print('ran')")
    done = graphdoc(tmp_path, "train.py", "--steps", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "graphdoc: train.py is a script: `graphdoc run train.py --steps 3`\n"
