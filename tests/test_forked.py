"""A forked script behaves as ``python SCRIPT`` does: output, traceback, exit status, arguments, folder, warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from forked import run_forked
from programs import program

SCRIPTS = {
    "prints": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n",
    "raises": "def inner():\n    raise ValueError('no')\n\n\ndef outer():\n    inner()\n\n\nouter()\n",
    "chained": "try:\n    {}['k']\nexcept KeyError as error:\n    raise RuntimeError('later') from error\n",
    "syntax": "print('never')\nx = = 1\n",
    "exit": "import sys\nsys.exit(3)\n",
    "exit text": "raise SystemExit('stopped: reason')\n",
    "signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "facts": "import os, sys\nprint(sys.argv, os.getcwd(), sys.path[0], __name__, __file__, sys.unraisablehook)\n",
    "input": "import sys\nprint(repr(sys.stdin.read()))\n",
    "atexit": "import atexit\natexit.register(print, 'last')\nprint('first')\n",
    "warns": "import warnings\nwarnings.warn('careful')\nwarnings.warn('careful')\n",
    "cuts": "import torch\ntorch.zeros(2).sum().backward()\n",
}


@pytest.mark.breadth(11)
@pytest.mark.parametrize("name", SCRIPTS)
def test_as_python_itself(tmp_path: Path, name: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPTS[name])
    plain = subprocess.run(
        [sys.executable, str(script), "a", "--b"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    forked = run_forked(script, ["a", "--b"])
    assert (forked.status, forked.stdout, forked.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_same_numbers_as_python_itself() -> None:
    fixed = program("ppo_three_networks_a").fixed[0]
    plain = subprocess.run([sys.executable, str(fixed)], capture_output=True, text=True)
    assert run_forked(fixed).stdout == plain.stdout


def test_setup_runs_in_the_child_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.marked_for_the_script)\n")

    def setup() -> None:
        sys.marked_for_the_script = "yes"  # type: ignore[attr-defined]

    assert run_forked(script, setup=setup).stdout == "yes\n"
    assert not hasattr(sys, "marked_for_the_script")


def test_a_script_that_never_ends_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\ntime.sleep(60)\n")
    with pytest.raises(TimeoutError):
        run_forked(script, timeout=0.2)
