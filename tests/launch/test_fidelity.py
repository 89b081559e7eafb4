"""Whatever a program can see of its start is the same under observation; after coverage.py's test of its own runner."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

DUMP = '''"""A docstring."""
from __future__ import annotations
import json, os, sys
main = sys.modules["__main__"]
spec = main.__spec__
seen = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "path": sys.path,
    "flags": repr(sys.flags),
    "warnoptions": sys.warnoptions,
    "xoptions": sys._xoptions,
    "executable": sys.executable,
    "cwd": os.getcwd(),
    "names": sorted(vars(main)),
    "main": [repr(getattr(main, n, None)) for n in ("__name__", "__file__", "__package__", "__doc__", "__cached__")],
    "same": main.__dict__ is globals(),
    "loader": type(main.__loader__).__name__,
    "spec": spec and [spec.name, spec.origin, spec.parent, type(spec.loader).__name__, spec.cached],
    "environ": list(os.environ.items()),
    "modules": sorted(sys.modules),
    "importers": sorted(sys.path_importer_cache),
    "hooks": len(sys.path_hooks),
    "finders": [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path],
    "excepthook": sys.excepthook is sys.__excepthook__,
}
print(json.dumps(seen, indent=1))
'''


def dumps(pair: Any, *words: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    plain, observed = pair.both(*words, **options)
    assert plain.returncode == 0, plain.stderr.decode()
    assert observed.stderr == plain.stderr
    assert observed.returncode == 0
    assert "ended.txt" in os.listdir(pair.out)
    return json.loads(plain.stdout), json.loads(observed.stdout)


def check(pair: Any, *words: str, **options: Any) -> None:
    plain, observed = dumps(pair, *words, **options)
    assert observed == plain
    # The comparison would be empty if the hook had not been there at all.
    assert not any(name.startswith("graphdoc") for name in observed["modules"])


def test_script(pair: Any) -> None:
    pair.write("train.py", DUMP)
    check(pair, "train.py", "--lr", "3", "--help", "--", "-m", "")


def test_script_in_a_subfolder(pair: Any) -> None:
    pair.write("scripts/train.py", DUMP)
    check(pair, "./scripts/../scripts/train.py")


def test_script_by_absolute_path_from_afar(pair: Any, tmp_path: Path) -> None:
    script = pair.write("train.py", DUMP)
    far = tmp_path / "far" / "away"
    far.mkdir(parents=True)
    check(pair, str(script), cwd=far)


def test_script_behind_a_symbolic_link(pair: Any) -> None:
    pair.write("real/train.py", DUMP)
    (pair.folder / "link.py").symlink_to("real/train.py")
    check(pair, "link.py")


def test_folder_with_main(pair: Any) -> None:
    pair.write("package/__main__.py", DUMP)
    check(pair, "package", "a")


def test_zip_with_main(pair: Any) -> None:
    with zipfile.ZipFile(pair.folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", DUMP)
    check(pair, "app.zip", "a")


def test_module(pair: Any) -> None:
    pair.write("train.py", DUMP)
    check(pair, "train", "-x", kind="module")


def test_module_in_a_package(pair: Any) -> None:
    pair.write("app/__init__.py", "")
    pair.write("app/train.py", DUMP)
    check(pair, "app.train", kind="module")


def test_package_as_module(pair: Any) -> None:
    pair.write("app/__init__.py", "import app.part")
    pair.write("app/part.py", "")
    pair.write("app/__main__.py", DUMP)
    check(pair, "app", "--flag", kind="module")


def test_script_from_standard_input(pair: Any) -> None:
    check(pair, "-", "a", stdin=DUMP.encode())


@pytest.mark.breadth(5)
@pytest.mark.parametrize(
    "flags",
    [
        ("-P",),
        ("-B", "-O"),
        ("-s", "-OO"),
        ("-W", "error::ResourceWarning", "-Wignore::ImportWarning"),
        ("-X", "dev"),
        ("-Xutf8=1", "-X", "faulthandler"),
        ("-uB",),
        ("-bb",),
        ("--check-hash-based-pycs", "never"),
    ],
    ids=" ".join,
)
def test_interpreter_options(pair: Any, flags: tuple[str, ...]) -> None:
    pair.write("train.py", DUMP)
    check(pair, "train.py", flags=flags)


@pytest.mark.breadth(3)
@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONPATH": "lib"},
        {"PYTHONPATH": "lib:/elsewhere:lib"},
        {"PYTHONPATH": ""},
        {"PYTHONWARNINGS": "error::ResourceWarning"},
        {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"},
        {"PYTHONHASHSEED": "7", "PYTHONOPTIMIZE": "1"},
    ],
    ids=str,
)
def test_environment(pair: Any, variables: dict[str, str]) -> None:
    pair.write("lib/helper.py", "")
    pair.write("train.py", DUMP)
    pair.env.update(variables)
    check(pair, "train.py")


def test_variables_changed_by_the_program_reach_its_children(pair: Any) -> None:
    pair.write(
        "train.py",
        "import os\nos.environ['PYTHONPATH'] = 'mine'\nos.environ['ANOTHER'] = 'x'\n"
        "os.system('echo $PYTHONPATH $ANOTHER')\ndel os.environ['PYTHONPATH']\nos.system('echo =$PYTHONPATH=')\n",
    )
    plain, observed = pair.both("train.py")
    assert observed.stdout == plain.stdout == b"mine x\n==\n"


CHILDREN = """
import os, subprocess, sys
def told(*command, **options):
    lines = subprocess.run(*command, capture_output=True, text=True, **options).stdout.splitlines()
    print(sorted(line for line in lines if not line.startswith(("_=", "SHLVL="))))
def tell():
    told(["env"])
    told(["sh", "-c", "env"])
    told("env | cat", shell=True)
    told(["env"], env={**os.environ, "A": "b"})
    print(sorted(os.popen("env").read().split("\\n")))
tell()
os.environ["PYTHONPATH"] = "mine"
tell()
del os.environ["PYTHONPATH"]
tell()
"""


@pytest.mark.parametrize("path", ["", "lib"])
def test_children_that_are_no_python_have_the_environment_without_us(pair: Any, path: str) -> None:
    pair.write("train.py", CHILDREN)
    if path:
        pair.env["PYTHONPATH"], pair.site = path, True
    plain, observed = pair.both("train.py")
    assert observed.stdout == plain.stdout and observed.stderr == plain.stderr == b""
    assert (b"PYTHONPATH=lib" in plain.stdout) is bool(path) and b"GRAPHDOC" not in plain.stdout


def test_own_sitecustomize_still_runs(pair: Any) -> None:
    pair.write("lib/sitecustomize.py", "import sys\nsys.mark = __name__, __file__\nprint('site', flush=True)\n")
    pair.write("train.py", "import sys, sitecustomize\nprint(sys.mark, sitecustomize.__spec__.name)\n")
    pair.env["PYTHONPATH"], pair.site = "lib", True
    plain, observed = pair.both("train.py")
    assert plain.stdout.startswith(b"site\n('sitecustomize'")
    assert observed.stdout == plain.stdout
    assert observed.stderr == plain.stderr == b""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("text", ["1 / 0", "import no_such_module", "syntax error"])
def test_own_sitecustomize_that_fails(pair: Any, text: str) -> None:
    pair.write("lib/sitecustomize.py", text)
    pair.write("train.py", "print('ran')\n")
    pair.env["PYTHONPATH"], pair.site = "lib", True
    plain, observed = pair.both("train.py")
    assert (observed.returncode, observed.stdout, observed.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_own_usercustomize_still_runs(pair: Any) -> None:
    pair.write("lib/usercustomize.py", "print('user')\n")
    pair.write("train.py", "print('ran')\n")
    pair.env["PYTHONPATH"], pair.site = "lib", True
    plain, observed = pair.both("train.py")
    assert observed.stdout == plain.stdout


@pytest.mark.breadth(5)
@pytest.mark.parametrize(
    "text",
    [
        "pass",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('some text')",
        "import sys; sys.exit(None)",
        "raise SystemExit",
        "def f(x):\n    return {}[x]\n\nf('key')",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('again') from e",
        "import os; os._exit(9)",
        "import os; print('lost'); os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt",
        "import no_such_module",
        "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\nraise ValueError",
        "import threading\nthreading.Thread(target=lambda: 1 / 0).start()",
        "import atexit\natexit.register(print, 'last')\natexit.register(print, 'first')\nprint('body')\n1 / 0",
        "import warnings\nwarnings.warn('careful')",
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', 'import sys; sys.exit(5)']))",
    ],
)
def test_end(pair: Any, text: str) -> None:
    pair.write("train.py", text + "\n")
    plain, observed = pair.both("train.py")
    assert observed.returncode == plain.returncode
    assert observed.stderr == plain.stderr
    assert observed.stdout == plain.stdout


def test_standard_input_passes_through(pair: Any) -> None:
    pair.write("train.py", "import sys\nread = sys.stdin.buffer\nprint(read.readline())\nprint(read.read())\n")
    plain, observed = pair.both("train.py", stdin=b"one\ntwo\xff\n")
    assert plain.stdout == observed.stdout == b"b'one\\n'\nb'two\\xff\\n'\n"


def test_open_files_pass_through(pair: Any) -> None:
    """``python train.py 3<file``."""
    pair.write("train.py", "import os\nprint(os.read(int(os.environ['FD']), 99))\n")
    reader, writer = os.pipe()
    try:
        os.write(writer, b"handed over")
        os.set_inheritable(reader, True)
        pair.env["FD"] = str(reader)
        import subprocess

        done = subprocess.run(
            pair.observed("train.py"), cwd=pair.folder, env=pair.env, capture_output=True, close_fds=False, check=False
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"b'handed over'\n", done.stderr
