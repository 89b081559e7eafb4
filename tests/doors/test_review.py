"""Review comments from a patch: only on lines that the pull request changes, as a suggestion that GitHub can apply."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from github import GitHub, serving

from graphdoc.doors.review import PostError, comments, main, post, pull_request

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
OTHER = DIFF.replace("@@ -5,4 +5,4 @@\n def train(loss):\n", "@@ -1,3 +1,2 @@\n")


def report(diff: str = DIFF, verified: bool | None = None, safety: str = "safe") -> dict[str, object]:
    fix = {"id": "x", "title": "merge them", "safety": safety, "diff": diff, "verified": verified}
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
    request = pull_request("main", "", repository)
    assert request.lines == {"train.py": {4, 5, 6, 7, 8}}
    first, second = comments(report(), request)
    assert (first["path"], first["start_line"], first["line"], first["side"]) == ("train.py", 6, 7, "RIGHT")
    assert first["body"] == "GD107: merge them [safe]\n\n```suggestion\n    loss.sum().backward()\n```"
    assert second["line"] == 8 and "start_line" not in second
    assert second["body"].endswith("```suggestion\n    return loss\n    # the end\n```")


def test_other_lines_get_none(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    (repository / "report.json").write_text(json.dumps(report(OTHER)))
    assert main(["report.json", "--base", "main"]) == 1
    assert json.loads(capsys.readouterr().out) == []
    assert comments(report(verified=False), pull_request("main", "", repository)) == []
    assert comments(report(safety="placeholders"), pull_request("main", "", repository)) == []


def test_a_patch_made_below_the_top_has_the_path_from_the_top(repository: Path) -> None:
    below = repository / "jobs"
    below.mkdir()
    (below / "train.py").write_text(f"\n{OLD}")  # of the same name as the one at the top, one line further down
    git(repository, "add", ".")
    (found, _) = comments(report(), pull_request("main", "", below))
    assert found["path"] == "train.py"  # a patch names a file from the top where it cannot from here
    (below / "train.py").write_text(OLD)
    (found, _) = comments(report(), pull_request("main", "", below))
    assert (found["path"], found["start_line"], found["line"]) == ("jobs/train.py", 6, 7)


def test_what_the_commit_does_not_hold_is_not_suggested(repository: Path) -> None:
    """A job may have checked out another commit than the pull request's last one: that of a merge, for one."""
    (repository / "train.py").write_text(OLD.replace("return loss", "return 2 * loss"))
    git(repository, "commit", "-qam", "third")
    (repository / "train.py").write_text(OLD)
    assert len(comments(report(), pull_request("main", "", repository))) == 2
    assert [c["line"] for c in comments(report(), pull_request("main", "HEAD", repository))] == [7]


def test_a_base_that_git_does_not_know_is_one_line(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    (repository / "report.json").write_text(json.dumps(report()))
    assert main(["report.json", "--base", "nowhere"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("graphdoc: ") and "nowhere" in said and said.count("\n") == 1


def commit(folder: Path, name: str) -> str:
    words = ["git", "rev-parse", name]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("token", "number", "status", "said"),
    [("writes", 7, 0, ""), ("", 7, 2, "401 Requires authentication"), ("writes", 8, 2, "404 Not Found")],
)
def test_a_review_is_posted_or_the_refusal_is_one_line(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    token: str,
    number: int,
    status: int,
    said: str,
) -> None:
    monkeypatch.chdir(repository)
    head = commit(repository, "HEAD")
    (repository / "report.json").write_text(json.dumps(report()))
    with serving(GitHub("a/b", 7, repository, "main", head)) as hub:
        for name, value in (("API_URL", hub.place), ("REPOSITORY", "a/b")):
            monkeypatch.setenv(f"GITHUB_{name}", value)
        monkeypatch.setenv("GH_TOKEN", token)
        words = ["report.json", "--base", "main", "--commit", head, "--post", str(number)]
        assert main(words) == status
    printed = capsys.readouterr()
    assert printed.err == (f"graphdoc: {said}\n" if said else "")
    assert hub.taken == ([] if status else [json.loads(printed.out)])
    if not status:
        assert main(words) == 2  # nobody answers any more
        assert capsys.readouterr().err.count("\n") == 1


def test_what_lies_outside_of_the_diff_is_refused_as_github_does(repository: Path) -> None:
    """That the stand-in would tell, were a comment on a line that the pull request does not show."""
    (repository / "long.py").write_text("x = 1\n" * 20)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "third")
    (repository / "long.py").write_text("x = 1\n" * 19 + "x = 2\n")
    git(repository, "commit", "-qam", "fourth")
    head = commit(repository, "HEAD")
    review = {"commit_id": head, "event": "COMMENT", "body": "b"}
    place = {"path": "long.py", "side": "RIGHT", "body": "c"}
    with serving(GitHub("a/b", 7, repository, "HEAD^", head)) as hub:

        def said(**comment: object) -> str:
            told = {**review, "comments": [{**place, **comment}]}
            with pytest.raises(PostError) as caught:
                post(told, place=hub.place, repository="a/b", number=7, token="writes")
            return str(caught.value)

        assert "Pull request review thread line must be part of the diff" in said(line=3)
        assert "start line must precede the end line" in said(line=18, start_line=18)
        assert "start line must be part of the same hunk" in said(line=18, start_line=4)
        assert "Path could not be resolved" in said(line=1, path="train.py")
        assert "422 Invalid request." in said(line="18")
        post(
            {**review, "comments": [{**place, "line": 18}]}, place=hub.place, repository="a/b", number=7, token="writes"
        )
