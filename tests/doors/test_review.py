"""Review comments from a patch: only on lines that the pull request changes, as a suggestion that GitHub can apply."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from graphdoc.doors.review import changed_lines, comments, main

OLD = "import torch\n\nx = 1\n\ndef train(loss):\n    loss.backward()\n    loss.backward()\n    return loss\n"
DIFF = """\
--- a/train.py
+++ b/train.py
@@ -5,4 +5,4 @@
 def train(loss):
-    loss.backward()
-    loss.backward()
+    loss.sum().backward()
     return loss
+    # the end
"""


def report(diff: str = DIFF, verified: bool | None = None) -> dict[str, object]:
    fix = {"id": "x", "title": "merge them", "safety": "safe", "diff": diff, "verified": verified}
    return {"diagnoses": [{"code": "GD107", "fixes": [fix]}]}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch that has added the function to a file which main has had."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "train.py").write_text("import torch\n\nx = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "change")
    (tmp_path / "train.py").write_text(OLD)
    git(tmp_path, "commit", "-qam", "second")
    return tmp_path


def test_changes_on_changed_lines_become_suggestions(repository: Path) -> None:
    changed = changed_lines("main", repository)
    assert changed == {"train.py": {4, 5, 6, 7, 8}}
    first, second = comments(report(), changed)
    assert (first["path"], first["start_line"], first["line"], first["side"]) == ("train.py", 6, 7, "RIGHT")
    assert first["body"] == "GD107: merge them [safe]\n\n```suggestion\n    loss.sum().backward()\n```"
    assert second["line"] == 8 and "start_line" not in second
    assert second["body"].endswith("```suggestion\n    return loss\n    # the end\n```")


def test_other_lines_get_none(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    other = DIFF.replace("@@ -5,4 +5,4 @@\n def train(loss):\n", "@@ -1,3 +1,2 @@\n")
    (repository / "report.json").write_text(json.dumps(report(other)))
    assert main(["report.json", "--base", "main"]) == 1
    assert json.loads(capsys.readouterr().out) == []
    assert comments(report(verified=False), {"train.py": set(range(1, 9))}) == []


def test_a_base_that_git_does_not_know_is_one_line(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    (repository / "report.json").write_text(json.dumps(report()))
    assert main(["report.json", "--base", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("graphdoc: ")
