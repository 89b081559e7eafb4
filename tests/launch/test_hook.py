"""When the hook loads the capture, in which processes, and what it leaves alone."""

from __future__ import annotations

import ast
import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import graphdoc.launch
from graphdoc.launch import hook_works, interpreter_options

HOOK = Path(graphdoc.launch.__file__).parent / "hook" / "sitecustomize.py"

LOADED = "sorted(m for m in __import__('sys').modules if m == 'graphdoc' or m == 'graphdoc.capture')"


def test_a_program_without_torch_gets_nothing(pair: Any) -> None:
    pair.write("train.py", "import sys\nprint([m for m in sys.modules if 'graphdoc' in m])\n")
    _, observed = pair.both("train.py")
    assert observed.stdout == b"[]\n"
    assert sorted(p.name.partition(".")[2] for p in pair.out.iterdir()) == ["alone", "started", "txt"]


@pytest.mark.slow
def test_capture_is_there_when_torch_has_been_imported(pair: Any) -> None:
    """With a spawned child, forked ones and one that is started by hand; torch's own loader stays in its place."""
    pair.write(
        "train.py",
        f"""
import multiprocessing, os, subprocess, sys
def tell(who):
    import torch
    print(who, {LOADED}, flush=True)
if __name__ == "__main__":
    print("before", {LOADED}, flush=True)
    import torch
    tell("parent")
    loader = torch.__loader__
    print(type(loader).__name__, loader is torch.__spec__.loader, vars(loader).keys(), flush=True)
    multiprocessing.set_forkserver_preload(["torch"])
    for method in ("spawn", "fork", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=tell, args=(method,))
        child.start()
        child.join()
    os.system(sys.executable + " by_hand.py")
""",
    )
    pair.write("by_hand.py", f"import torch\nprint('system', {LOADED})\n")
    observed = pair.run(pair.observed("train.py"))
    there = "['graphdoc', 'graphdoc.capture']"
    assert observed.stdout.decode().splitlines() == [
        "before []",
        f"parent {there}",
        "SourceFileLoader True dict_keys(['name', 'path'])",
        f"spawn {there}",
        f"fork {there}",
        f"forkserver {there}",
        f"system {there}",
    ], observed.stderr.decode()


STARTED = {
    "{python} by_hand.py": True,
    "sh -c '{python} by_hand.py'": True,
    "sh -c 'env > out; exec {python} by_hand.py'": True,
    "sh start.sh": True,
    "./start": True,
    "sh -c start": True,
    "env A=b {python} by_hand.py": True,
    "sh -c env": False,
    "env": False,
    "./program": False,
    "cd sub: ./start": True,
    "make -s": True,
    "cd sub: make -s": False,
}


@pytest.mark.breadth(5)
@pytest.mark.parametrize(("line", "followed"), STARTED.items())
def test_which_children_are_taken_for_a_python(pair: Any, line: str, followed: bool) -> None:
    """``program`` says so itself, which no script and no Python is."""
    pair.write("by_hand.py", "import os\nprint(os.getpid())\n")
    for name in ("start.sh", "start", "sub/start"):
        pair.write(name, f"#!/bin/sh\n{sys.executable} {pair.folder}/by_hand.py\n").chmod(0o755)
    pair.write("Makefile", f"all:\n\t@{sys.executable} by_hand.py\n")
    pair.write("sub/Makefile", "all:\n\t@env\n")
    if line.startswith("make") and not shutil.which("make"):
        pytest.skip("there is no make here")
    shutil.copy(shutil.which("env") or "", pair.folder / "program")
    folder, _, line = line.rpartition(": ")
    words, cwd = shlex.split(line.format(python=sys.executable)), folder.removeprefix("cd ") or "."
    start = f"subprocess.run({words}, cwd={cwd!r}, capture_output=True, text=True)"
    pair.write("train.py", f"import subprocess\nprint({start}.stdout)\n")
    pair.env["PATH"] = f"{pair.folder}:{os.environ['PATH']}"
    told = pair.run(pair.observed("train.py")).stdout.decode().strip()
    assert "GRAPHDOC" not in told
    assert len(list(pair.out.glob("process-*.started"))) == 1 + followed, told


def test_a_command_keeps_the_variables_for_its_workers(pair: Any) -> None:
    """torchrun gives its workers a copy of ``os.environ``."""
    pair.write("worker.py", "import os\nprint(os.getpid(), flush=True)\n")
    pair.write(
        "agent.py",
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, 'worker.py'], env=dict(os.environ))\n"
        "os.environ['GRAPHDOC_DISABLE'] = '1'\n"
        "subprocess.run([sys.executable, 'worker.py'], env=dict(os.environ))\n",
    )
    done = pair.run(pair.observed(sys.executable, "agent.py", kind="command"))
    first, second = done.stdout.decode().split()
    assert (pair.out / f"process-{first}.started").exists(), done.stderr
    assert (pair.out / f"process-{second}.disabled").exists()
    assert not (pair.out / f"process-{second}.started").exists()


@pytest.mark.slow
def test_so_does_the_launcher_that_is_run_as_a_module(pair: Any) -> None:
    """``-m torch.distributed.run`` does so in the process that is the program itself."""
    pair.write("worker.py", "print('worked', flush=True)\n")
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "worker.py")
    done = pair.run(pair.observed(*launcher, kind="module"))
    assert done.stdout.decode().split() == ["worked"] * 2, done.stderr.decode()
    assert len(list(pair.out.glob("process-*.started"))) == 3


def test_disable_switches_off(pair: Any) -> None:
    pair.write("train.py", "import os, sys\nprint([k for k in os.environ if 'GRAPHDOC' in k], len(sys.meta_path))\n")
    pair.env["GRAPHDOC_DISABLE"] = "1"
    plain, observed = pair.both("train.py")
    assert observed.stdout == plain.stdout
    assert observed.stdout.startswith(b"['GRAPHDOC_DISABLE']")


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    "text", ["raise ValueError('mine')", "raise ImportError('mine')", "import no_such", "syntax error", "1 / 0"]
)
def test_a_torch_that_cannot_be_imported_shows_none_of_our_frames(pair: Any, text: str) -> None:
    """A file of the user's that is called torch.py, for one."""
    pair.write("torch.py", text + "\n")
    pair.write("train.py", "def f():\n    import torch\n\nf()\n")
    plain, observed = pair.both("train.py")
    assert plain.returncode == 1
    assert observed.stderr == plain.stderr


@pytest.mark.slow
def test_torch_is_observed_after_a_first_try_that_failed(pair: Any) -> None:
    pair.write("bad/torch.py", "raise ImportError('not yet')\n")
    pair.write(
        "train.py",
        "import sys\nsys.path.insert(0, 'bad')\n"
        "try:\n    import torch\nexcept ImportError as e:\n    print(e)\n"
        f"sys.path.remove('bad')\nimport torch\nprint({LOADED})\n",
    )
    observed = pair.run(pair.observed("train.py"))
    assert observed.stdout == b"not yet\n['graphdoc', 'graphdoc.capture']\n", observed.stderr


def test_warnings_at_import_name_the_users_line(pair: Any) -> None:
    pair.write("torch.py", "import warnings\nwarnings.warn('old', stacklevel=2)\n")
    pair.write("train.py", "import torch\n")
    plain, observed = pair.both("train.py")
    assert b"train.py:1: UserWarning: old" in plain.stderr
    assert observed.stderr == plain.stderr


def test_trouble_is_told_to_the_parent_alone(pair: Any) -> None:
    """Another package called graphdoc is on the user's path."""
    pair.write("torch.py", "")
    pair.write("graphdoc.py", "")
    pair.write("train.py", "import graphdoc, torch\nprint('ran')\n")
    observed = pair.run(pair.observed("train.py"))
    assert (observed.returncode, observed.stdout, observed.stderr) == (0, b"ran\n", b"")
    assert "another package called graphdoc" in (pair.out / "ended.txt").read_text()


def test_an_unwritable_out_folder_is_no_trouble_of_the_program(pair: Any) -> None:
    pair.write("torch.py", "import os, shutil\nshutil.rmtree(os.environ['WHERE'])\n")
    pair.write("graphdoc.py", "")
    pair.write("train.py", "import graphdoc, torch\nprint('ran')\n")
    gone = pair.out / "gone"
    gone.mkdir()
    pair.env["WHERE"] = str(gone)
    command = pair.observed("train.py")
    command[command.index(str(pair.out))] = str(gone)
    done = pair.run(command)
    assert done.stdout == b"ran\n"


def test_the_hook_imports_only_what_python_has_already_imported() -> None:
    tree = ast.parse(HOOK.read_text())
    top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {alias.name for n in top if isinstance(n, ast.Import) for alias in n.names}
    assert names == {"os", "sys", "sitecustomize"}
    assert not [n for n in top if isinstance(n, ast.ImportFrom)]


def left_alone(monkeypatch: pytest.MonkeyPatch, argv: list[str], original: list[str]) -> bool:
    """Ask the hook's own function about a process with these arguments, without starting the hook."""
    spec = importlib.util.spec_from_file_location("hook_under_test", HOOK)
    assert spec is not None
    source = HOOK.read_text().split("\ntry:\n    _step_aside()")[0]
    names: dict[str, Any] = {"__file__": str(HOOK), "__name__": "hook_under_test"}
    exec(compile(source, str(HOOK), "exec"), names)
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", original)
    return bool(names["_left_alone"]())


@pytest.mark.parametrize(
    ("argv", "original", "expected"),
    [
        (["train.py", "a"], ["python", "train.py", "a"], False),
        (["-m", "a"], ["python", "-u", "-m", "train", "a"], False),
        (["-c"], ["python", "-c", "import torch"], False),
        (["-c", "--multiprocessing-fork"], ["python", "-c", "from multiprocessing.spawn import x", "--m"], False),
        (["-c"], ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"], True),
        (
            ["/x/torch/_inductor/compile_worker/__main__.py", "--workers=2"],
            ["python", "/x/torch/_inductor/compile_worker/__main__.py", "--workers=2"],
            True,
        ),
        (["-m", "--workers=2"], ["python", "-mtorch._inductor.compile_worker", "--workers=2"], True),
        (["-m", "t.py"], ["python", "-m", "torch.distributed.run", "t.py"], True),
        (["/v/bin/torchrun", "t.py"], ["python", "/v/bin/torchrun", "t.py"], True),
        (["-m", "install", "x"], ["python", "-m", "pip", "install", "x"], True),
        (["pip_trainer.py"], ["python", "pip_trainer.py"], False),
        ([""], ["python"], False),
    ],
)
def test_helper_processes_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], original: list[str], expected: bool
) -> None:
    assert left_alone(monkeypatch, argv, original) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py", "-O"], []),
        (["-m", "graphdoc", "run", "-u"], []),
        (["-um", "graphdoc"], ["-u"]),
        (["-mgraphdoc"], []),
        (["-Wm", "-X", "c", "-c", "code"], ["-Wm", "-X", "c"]),
        (["-OOW", "error", "x.py"], ["-OO", "-W", "error"]),
        (["-i", "-V", "-iB", "x.py"], ["-B"]),
        (["--check-hash-based-pycs", "always", "x"], ["--check-hash-based-pycs", "always"]),
        (["-"], []),
        ([], []),
    ],
)
def test_interpreter_options_are_read_off_the_command_line(words: list[str], expected: list[str]) -> None:
    assert interpreter_options(words) == expected


def test_options_that_keep_the_hook_out_are_known() -> None:
    assert hook_works(["-W", "error", "-XI", "-u", "-P"])
    assert not hook_works(["-uI"])
    assert not hook_works(["-E"])
    assert not hook_works(["-S"])
