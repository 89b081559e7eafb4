"""Runs out of one interpreter that has torch: the program cannot tell, and nothing else is shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from marks import below, have_namespaces, interrupted_when, kill_when, state

from graphdoc.errors import Interrupted
from graphdoc.launch import Request
from graphdoc.launch.isolation import Forks, Stop, apart, launch_apart
from graphdoc.launch.isolation.forks import imported_first

pytestmark = pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")

SEEN = '''\
"""What a program can see of itself."""
from __future__ import annotations
import atexit, gc, json, os, resource, signal, sys, threading, traceback, warnings
import numpy as np
import torch


def told(call, *args):
    try:
        return repr(call(*args))
    except Exception as e:
        return type(e).__name__


def kinds():
    for number in os.listdir("/proc/self/fd"):
        try:
            yield number, os.stat(f"/proc/self/fd/{number}").st_mode
        except OSError:
            pass


# What a first look at the search path of the standard library loads.
LAZY = "_sysconfigdata"
print(json.dumps({
    "argv": [sys.argv, sys.orig_argv, open("/proc/self/cmdline").read()],
    "path": [sys.path, sorted(sys.path_importer_cache), [str(getattr(h, "__qualname__", h)) for h in sys.path_hooks]],
    "finders": [str(getattr(m, "__name__", type(m))) for m in sys.meta_path],
    "flags": [str(sys.flags), str(sys._xoptions), sys.dont_write_bytecode, sys.getrecursionlimit()],
    "main": [sorted(vars(sys.modules["__main__"])), __file__, type(__spec__).__name__, __package__, __name__],
    "modules": sorted(m for m in sys.modules if not m.startswith(LAZY)),
    "environment": {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"},
    "files": sorted(kinds()),
    "signals": [str(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
    "blocked": str(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "streams": [
        [s.isatty(), s.encoding, s.errors, s.line_buffering, s.write_through, s.seekable(), s.name, told(s.tell)]
        for s in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "read": sys.stdin.read(),
    "process": [os.getcwd(), os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.nice(0), os.umask(0o22)],
    "limits": [resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)],
    "threads": threading.active_count(),
    "torch": [torch.initial_seed(), torch.get_num_threads(), torch.get_num_interop_threads(), torch.rand(1).item()],
    "numpy": float(np.random.rand()),
    "cuda": [torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork()],
    "filters": [str(f) for f in warnings.filters],
    "ends": atexit._ncallbacks(),
    "memory": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
    "stack": len(traceback.extract_stack()),
    "hook": str(sys.excepthook),
    "powers": [line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNew", "Sec"))],
}))
'''


def run(folder: Path, name: str, forks: Forks | None, kind: str = "script", **more: Any) -> Any:
    """One run in a folder of its own for what it leaves."""
    out = folder.parent / f"evidence-{time.monotonic_ns()}"
    out.mkdir()
    request = Request([name, "given"], kind=kind, cwd=str(folder), timeout=60, **more)  # type: ignore[arg-type]
    return launch_apart(request, out, Stop(), forks=forks)


@pytest.mark.parametrize(
    ("kind", "patched"),
    [
        pytest.param("script", True, id="script"),
        pytest.param("script", False, marks=pytest.mark.slow, id="script-as-it-is"),
        pytest.param("module", True, marks=pytest.mark.slow, id="module"),
    ],
)
@pytest.mark.slow
def test_a_program_cannot_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, patched: bool) -> None:
    monkeypatch.setattr(apart, "_MOST_PRINTED", 1_000_000)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SEEN if not patched else "import torch\n")
    more = {"mode": "verify:0:0", "patches": {str(folder / "train.py"): SEEN} if patched else None}
    name = "train" if kind == "module" else "train.py"
    anew = json.loads(run(folder, name, None, kind, **more).printed.splitlines()[-1])
    with Forks() as forks:
        for _ in range(2):
            ended = run(folder, name, forks, kind, **more)
            assert forks.why == "" and forks.runs
            seen = json.loads(ended.printed.splitlines()[-1])
            assert {k: (v, anew[k]) for k, v in seen.items() if v != anew[k]} == {}
        assert forks.runs == 2


ENDINGS = {
    "raise KeyError('mine')": (1, "KeyError: 'mine'"),
    "import sys; sys.exit(7)": (7, ""),
    "import sys; sys.exit('no')": (1, "no"),
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (137, ""),
    "import atexit; atexit.register(print, 'last'); print('first')": (0, "last"),
    "import ctypes; ctypes.string_at(0)": (139, ""),
    "import multiprocessing as m; p = m.get_context('spawn').Process(target=print, args=('x',)); p.start(); p.join()": (
        0,
        "x",
    ),
}


@pytest.mark.slow
def test_it_ends_as_it_would(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with Forks() as forks:
        for number, (deed, (status, last)) in enumerate(ENDINGS.items(), 1):
            (folder / "train.py").write_text(f"import torch\nif __name__ == '__main__':\n    {deed}\n")
            ended = run(folder, "train.py", forks)
            assert (ended.exit_status, (ended.printed.splitlines() or [""])[-1]) == (status, last), deed
            assert forks.runs == number


MARKS = """\
import os
import torch
print(os.listdir("."), torch.rand(1).item())
open("made", "w").write("x")
torch.save(torch.zeros(3), "model.pt")
os.remove("kept")
for place in ("/", "/tmp", "."):
    os.system(f"umount {place} 2>/dev/null")
open("after", "w").write("x")
"""


def test_no_run_leaves_a_mark_on_the_users_files_or_on_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(MARKS)
    (folder / "kept").write_text("kept")
    before = state(folder)
    with Forks() as forks:
        first, second = (run(folder, "train.py", forks) for _ in range(2))
        assert forks.runs == 2
    assert first.exit_status == 0 and first.printed == second.printed != ""
    assert state(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("typing_extensions.py", "typing_extensions lies beside the program"),
        ("random", "random lies beside the program"),
    ],
)
def test_what_torch_would_find_beside_the_program_is_not_passed_over(tmp_path: Path, beside: str, why: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / beside).mkdir() if "." not in beside else (folder / beside).write_text("raise ImportError('mine')\n")
    (folder / "train.py").write_text("import torch\nprint('ran')\n")
    with Forks() as forks:
        ended = run(folder, "train.py", forks)
        assert (forks.why, forks.runs) == (why, 0)
    assert ("mine" in ended.printed) == ("." in beside)  # started anew, it finds what lies there


@pytest.mark.slow
def test_a_start_up_file_of_the_users_runs_before_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, start = tmp_path / "project", tmp_path / "start"
    folder.mkdir()
    start.mkdir()
    (start / "sitecustomize.py").write_text("import sys\nprint('torch' in sys.modules)\n")
    (folder / "train.py").write_text("import torch\nprint('ran')\n")
    monkeypatch.setenv("PYTHONPATH", str(start))
    with Forks() as forks:
        ended = run(folder, "train.py", forks)
        assert (forks.why, forks.runs) == ("sitecustomize is to run before the program", 0)
    assert ended.printed.split() == ["False", "ran"]


WAITS = "import sys, time\nimport torch\nopen(sys.argv[1], 'w').close()\ntime.sleep(60)\n"


def test_a_signal_ends_it_at_once_with_all_below(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "train.py").write_text(WAITS)
    request = Request(["train.py", str(out / "ready")], cwd=str(tmp_path), timeout=60)
    with interrupted_when(out / "ready") as stop, Forks() as forks, pytest.raises(Interrupted):
        launch_apart(request, out, stop, forks=forks)
    assert forks.runs == 1 and below(str(out)) == []


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "train.py").write_text(WAITS)
    driver = (
        "import sys\nfrom pathlib import Path\nfrom graphdoc.launch import Request\n"
        "from graphdoc.launch.isolation import Forks, Stop, launch_apart\n"
        "out = Path(sys.argv[1])\n"
        "request = Request(['train.py', str(out / 'ready')], cwd=sys.argv[2], timeout=60)\n"
        "launch_apart(request, out, Stop(), forks=Forks())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", driver, str(out), str(tmp_path)], env={**os.environ})
    kill_when(out / "ready", parent, str(out), seconds=60)


ASKS = """
import os, sys, torch
known = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import server
here = os.getpid()
{deed}
print(server._import_torch([], known))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("", ""),
        ("torch.cuda._initialized = True", "an accelerator is in use"),
        # What a build with CUDA answers once the driver was asked how many devices there are.
        ("torch.cuda._is_in_bad_fork = lambda: os.getpid() != here", "an accelerator is in use"),
        ("torch.xpu._is_in_bad_fork = lambda: os.getpid() != here", "an accelerator is in use"),
        pytest.param(
            "assert not torch.cuda.is_initialized(); torch.cuda.is_available()",
            "an accelerator is in use",
            marks=pytest.mark.skipif(torch.version.cuda is None, reason="torch without CUDA"),
        ),
    ],
)
def test_a_process_that_has_asked_for_a_device_is_not_forked(tmp_path: Path, deed: str, why: str) -> None:
    words = [sys.executable, "-c", ASKS.format(deed=deed), str(Path(apart.__file__).parent)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == why


ON_A_DEVICE = """
import torch
print(torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork(), torch.cuda.is_available(), torch.zeros(2).sum().item())
"""


@pytest.mark.slow
def test_a_run_of_the_shared_import_can_still_ask_for_one(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(ON_A_DEVICE)
    with Forks() as forks:
        first, second = (run(folder, "train.py", forks).printed.split() for _ in range(2))
        assert forks.runs == 2
    assert first == second == ["False", "False", str(torch.cuda.is_available()), "0.0"]


OTHERS = {
    "import os; os.listdir('.'); open(__file__).close(); os.environ['SET_BY'] = 'a package'": "",
    "import os; os.mkdir('mark')": "reaches out of the process (os.mkdir)",
    "try:\n    open('mark', 'w')\nexcept OSError:\n    pass": "reaches out of the process (open)",
    "kept = open('/dev/zero')": "keeps a file open",
    "import torch": "imports torch",
}


@pytest.mark.slow
def test_what_is_imported_before_torch_is_shared_where_nothing_outside_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, site = tmp_path / "project", tmp_path / "site-packages"
    folder.mkdir()
    site.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(site))
    (folder / "train.py").write_text(
        "import another\nimport os, torch\nprint(os.environ.get('SET_BY'), another.__file__ != __file__)\n"
    )
    for deed, why in OTHERS.items():
        (site / "another.py").write_text(f"{deed}\n")
        with Forks() as forks:
            ended = run(folder, "train.py", forks)
            assert (forks.why, forks.runs) == (f"what it imports before torch {why}" if why else "", 0 if why else 1)
        assert ended.printed == f"{'a package' if 'SET_BY' in deed else None} True\n", deed
        assert sorted(os.listdir(folder)) == ["train.py"]


@pytest.mark.slow
def test_a_package_of_the_users_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, own = tmp_path / "project", tmp_path / "own"
    folder.mkdir()
    own.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(own))
    (own / "another.py").write_text("")
    (folder / "train.py").write_text("import another\nimport torch\nprint('ran')\n")
    with Forks() as forks:
        ended = run(folder, "train.py", forks)
        assert (forks.why, forks.runs, ended.printed) == ("another is no installed package", 0, "ran\n")


@pytest.mark.slow
def test_a_variable_that_the_program_sets_behind_torch_still_counts(tmp_path: Path) -> None:
    """``torch._dynamo.config`` reads this one when it is imported."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(
        "import os, torch\n"
        "os.environ['TORCH_COMPILE_DISABLE'] = '1'\n"
        "import torch._dynamo\n"
        "print(torch._dynamo.config.disable)\n"
    )
    with Forks(["torch._dynamo"]) as forks:
        ended = run(folder, "train.py", forks)
        assert (ended.exit_status, ended.printed, forks.runs) == (0, "True\n", 1)


@pytest.mark.slow
def test_runs_go_on_side_by_side(tmp_path: Path) -> None:
    """Each has its own network and files: what one writes, or listens at, is no other's."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(
        "import torch, os, socket, sys, time\n"
        "at = socket.create_server(('127.0.0.1', 29511))\n"
        "open('mark', 'x').close()\n"
        "time.sleep(1.5)\n"
        "print(sorted(os.listdir('.')))\n"
    )
    done: list[Any] = []
    with Forks(["torch._dynamo"]) as forks:
        request = Request(["train.py"], cwd=str(folder), timeout=60)
        outs = [tmp_path / name for name in ("one", "other")]
        for out in outs:
            out.mkdir()
        other = threading.Thread(target=lambda: done.append(launch_apart(request, outs[1], Stop(), forks=forks)))
        done.append(launch_apart(request, outs[0], Stop(), forks=forks, started=other.start))
        other.join()
        assert forks.runs == 2
    assert [(one.exit_status, one.printed) for one in done] == [(0, "['mark', 'train.py']\n")] * 2
    assert sorted(os.listdir(folder)) == ["train.py"]


@pytest.mark.parametrize(
    ("header", "before"),
    [
        ("import torch\nimport mine\n", []),
        ("'''Doc.'''\nfrom __future__ import annotations\nimport os, sys\nfrom torch import nn\n", []),
        ("import numpy as np\nimport torch.nn as nn\n", ["numpy"]),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\n", None),
        ("import random, gymnasium as gym\nfrom cv2.data import x\nimport torch\n", ["gymnasium", "cv2.data"]),
        ("import mine\nimport torch\n", None),
        ("import others.mine\nimport torch\n", None),
        ("from . import mine\nimport torch\n", None),
        ("if True:\n    import torch\n", None),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", None),
        ("import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\nimport torch\n", None),
        ("import torch.cuda\ntorch.cuda.init()\n", []),
        ("import os\n", None),
        ("import (\n", None),
    ],
)
def test_what_comes_before_torch(tmp_path: Path, header: str, before: list[str] | None) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "others").mkdir()
    request = Request(["train.py"], cwd=str(tmp_path), patches={str(tmp_path / "train.py"): header})
    assert imported_first(request) == before


def test_a_module_comes_after_its_packages(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("import torch\n")
    request = Request(["package.train"], kind="module", cwd=str(tmp_path))
    assert imported_first(request) is None  # a package without a file of its own may be anywhere
    for text, before in (("'''Doc.'''\n", []), ("from package import other\n", None), ("import torch\n", [])):
        (tmp_path / "package" / "__init__.py").write_text(text)
        assert imported_first(request) == before
