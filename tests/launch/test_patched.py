"""A program runs with other text for its files, and the files stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.launch import Ended, Request, launch

MAIN = '''"""A docstring."""
from __future__ import annotations

import atexit, inspect, os, sys, threading
import helper

RESULT = "original"

def tell(name):
    with open(name, "w") as f:
        f.write(RESULT + " " + helper.RESULT + "\\n" + inspect.getsource(tell))

if __name__ == "__main__":
    with open("start.txt", "w") as f:
        print(sys.argv, sys.path[0], __file__, __spec__, __package__, __name__, __doc__, sys.path_hooks[0], file=f)
        print(tell.__code__.co_firstlineno, file=f)
    atexit.register(lambda: open("atexit.txt", "w").close())
    threading.Thread(target=tell, args=("parent.txt",)).start()
    if "spawn" in sys.argv:
        import multiprocessing
        child = multiprocessing.get_context("spawn").Process(target=tell, args=("child.txt",))
        child.start()
        child.join()
    if "status" in sys.argv:
        sys.exit(5)
    if "raise" in sys.argv:
        sys.excepthook = lambda *a: open("hook.txt", "w").close()
        raise ValueError("the end")
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(MAIN)
    (folder / "helper.py").write_text('RESULT = "original"\n')
    return folder


def run(project: Path, *command: str, kind: str = "script") -> Ended:
    out = project.parent / "out"
    out.mkdir(exist_ok=True)
    patches = {
        str(project / "train.py"): MAIN.replace('"original"', '"patched"'),
        str(project / "helper.py"): 'RESULT = "helped"\n',
    }
    request = Request(list(command), kind, cwd=str(project), mode="verify", patches=patches, quiet=True, timeout=60)  # type: ignore[arg-type]
    ended = launch(request, out)
    assert ended.troubles == []
    assert (project / "train.py").read_text() == MAIN
    assert not (project / "__pycache__").exists() or not list((project / "__pycache__").glob("helper*"))
    return ended


@pytest.mark.parametrize("observed", [True, False])
def test_a_patched_script_starts_as_a_plain_one(project: Path, observed: bool) -> None:
    if observed:
        run(project, "train.py", "a", "--b")
    else:
        launch(Request(["train.py", "a", "--b"], cwd=str(project), quiet=True), None)
    started = (project / "start.txt").read_text()
    main = str(project / "train.py")
    assert started.startswith(f"['train.py', 'a', '--b'] {project} {main} None None __main__ A docstring. <class 'zip")
    assert started.endswith("\n9\n")
    expected = "patched helped\n" if observed else "original original\n"
    assert (project / "parent.txt").read_text().startswith(expected + "def tell(name):")
    assert (project / "atexit.txt").exists()


def test_ends_as_python_does(project: Path) -> None:
    assert run(project, "train.py").exit_status == 0
    assert run(project, "train.py", "status").exit_status == 5
    assert run(project, "train.py", "raise").exit_status == 1
    assert (project / "hook.txt").exists()


def test_spawned_children_see_the_patch(project: Path) -> None:
    assert run(project, "train.py", "spawn").exit_status == 0
    assert (project / "child.txt").read_text().startswith("patched helped\ndef tell(name):")


def test_module(project: Path) -> None:
    assert run(project, "train", "status", kind="module").exit_status == 5
    assert (project / "parent.txt").read_text().startswith("patched helped\n")


def test_script_elsewhere_and_symbolic_link(project: Path) -> None:
    (project / "link.py").symlink_to("train.py")
    assert run(project, str(project / "train.py")).exit_status == 0
    assert (project / "parent.txt").read_text().startswith("patched helped\n")
    (project / "parent.txt").unlink()
    assert run(project, "link.py").exit_status == 0
    assert (project / "parent.txt").read_text().startswith("patched helped\n")


def test_a_patch_that_does_not_parse_fails_like_a_program(project: Path) -> None:
    out = project.parent / "out"
    out.mkdir()
    patches = {str(project / "train.py"): "def"}
    ended = launch(Request(["train.py"], cwd=str(project), patches=patches, quiet=True), out)
    assert ended.exit_status == 1
    assert not (project / "start.txt").exists()


@pytest.mark.slow
def test_a_test_file_that_pytest_compiles_by_itself_is_patched_too(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("RESULT = 'original'\n\ndef test_it():\n    assert RESULT == 'patched'\n")
    patches = {str(test): test.read_text().replace("'original'", "'patched'")}
    out = tmp_path / "out"
    out.mkdir()
    words = ["pytest", "-p", "no:cacheprovider", "test_it.py"]
    ended = launch(Request(words, "module", cwd=str(tmp_path), mode="verify", patches=patches, quiet=True), out)
    assert ended.exit_status == 0
