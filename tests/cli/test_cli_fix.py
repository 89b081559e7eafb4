"""``graphdoc fix``, ``show`` and ``causes``: what is printed, written and refused, for a given report."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphdoc.diagnose
import graphdoc.proposals.propose
from graphdoc.__main__ import main
from graphdoc.evidence import Evidence, Process, Raised
from graphdoc.fixes.apply import unified
from graphdoc.launch import Ended, Request
from graphdoc.launch.folders import new_run
from graphdoc.launch.keep import keep
from graphdoc.model import Diagnosis, Fix, Report, Run, Span

OLD = "import torch\n\ny = net(x)\nloss = y * t\nloss.backward()\n"
NEW = OLD.replace("y * t", "y * t.detach()")


def fix(ident: str, safety: Any, old: str = OLD, new: str = NEW, **more: Any) -> Fix:
    diff = unified({"train.py": old}, {"train.py": new}) if new else ""
    return Fix(ident, f"do {ident}", safety, diff, f"note on {ident}", **more)


class Project:
    """A folder with a program, a kept run of it, and the fixes that the next command shall be offered."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
        self.folder, self.monkeypatch, self.streams = folder, monkeypatch, capfdbinary
        self.script = folder / "train.py"
        self.script.write_text(OLD)
        self.fixes: tuple[Fix, ...] = (fix("detach", "safe", verified=True),)
        self.verify: list[bool] = []
        self.trying: Any = None
        self.interrupted = 0
        self.told: tuple[Fix, ...] = ()
        monkeypatch.chdir(folder)
        monkeypatch.setattr(graphdoc.diagnose, "report_for", self.report)
        monkeypatch.setattr(graphdoc.proposals.propose, "propose", self.propose)

    def report(self, kept: Any, announce: Any = None) -> Report:
        self.rerun = kept.rerun
        spans = (Span("cause", "train.py", 4, 8, 4, 13, "here"),)
        found = Diagnosis("GD103", "undetached-target", "certain", "a title", "an explanation", spans, (), self.told)
        run = Run(tuple(kept.request.command), "3.11", "2.13", kept.exit_status, kept.seconds)
        return Report(run, "autograd-failure", {"type": "RuntimeError", "message": "m"}, (found,))

    def propose(self, kept: Any, report: Report, *, verify: bool, trying: Any) -> Report:
        self.verify.append(verify)
        self.trying = trying
        trying.interrupted = self.interrupted
        return Report(report.run, report.outcome, report.exception, (report.diagnoses[0].with_fixes(self.fixes),))

    def keep(self) -> None:
        folder = new_run(self.folder)
        evidence = folder / "evidence-1.json"
        digest = hashlib.sha256(self.script.read_bytes()).hexdigest()
        Evidence(
            process=Process(pid=1, cwd=str(self.folder)),
            raised=Raised("RuntimeError", "m"),
            hashes={str(self.script): digest},
        ).write(str(evidence))
        ended = Ended(1, None, 1.0, evidence=[evidence])
        keep(folder, Request(["train.py"], cwd=str(self.folder)), ended).save()

    def __call__(self, *words: str) -> tuple[int, bytes, str]:
        """Exit status, stdout, stderr of one command."""
        self.monkeypatch.setattr(sys, "argv", ["graphdoc", *words])
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            signal.signal(signal.SIGINT, on_interrupt)
        out, err = self.streams.readouterr()
        return int(ended.value.code or 0), out, err.decode()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Project(folder, monkeypatch, capfdbinary)
    made.keep()
    return made


def test_diff_is_all_of_stdout_and_applies(project: Project) -> None:
    status, out, err = project("fix", "--diff")
    assert (status, err) == (0, "graphdoc: do detach [safe, verified]\n")
    assert project.script.read_text() == OLD
    subprocess.run(["patch", "-p1", "-s"], input=out, cwd=project.folder, check=True)
    assert project.script.read_text() == NEW
    assert project.verify == [True]


def test_diff_shows_an_unsafe_fix_too(project: Project) -> None:
    project.fixes = (fix("cut", "unsafe"),)
    status, out, _ = project("fix", "--diff", "--no-verify")
    assert status == 3 and out.startswith(b"--- a/train.py\n")
    assert project.verify == [False]


def test_a_patch_that_was_not_proven_is_printed_with_a_word_about_it(project: Project) -> None:
    project.fixes = (fix("cut", "unsafe"),)
    _, _, err = project("fix", "--diff", "--no-verify")
    assert err == "graphdoc: do cut [unsafe, not tried]\n"
    project.fixes = (replace(fix("cut", "unsafe"), verification={"summary": "the crash is gone, but it warns"}),)
    _, _, err = project("fix", "--diff")
    assert err == "graphdoc: do cut [unsafe, tried, not verified]: the crash is gone, but it warns\n"


def test_apply_and_undo(project: Project) -> None:
    project.script.chmod(0o755)
    status, out, err = project("fix")
    assert (status, err) == (0, "")
    assert out == b"do detach: changed train.py.\nTo undo: graphdoc fix --undo\n"
    assert project.script.read_text() == NEW
    assert project.script.stat().st_mode & 0o777 == 0o755
    assert project("fix", "--undo") == (0, b"Took the last fix back: train.py is as before.\n", "")
    assert project.script.read_text() == OLD
    assert project.script.stat().st_mode & 0o777 == 0o755
    status, out, err = project("fix", "--undo")
    assert (status, out) == (2, b"") and err == "graphdoc: no fix is applied here that could be taken back\n"


def test_git_takes_a_fix_back_as_well(project: Project) -> None:
    project("fix")
    subprocess.run(["git", "apply", ".graphdoc/undo.patch"], cwd=project.folder, check=True)
    assert project.script.read_text() == OLD
    assert "has changed since the fix" in project("fix", "--undo")[2]


def test_what_was_edited_since_is_not_taken_back(project: Project) -> None:
    project("fix")
    project.script.write_text(NEW + "# mine\n")
    status, out, err = project("fix", "--undo")
    assert (status, out) == (2, b"")
    assert err == "graphdoc: train.py has changed since the fix, so nothing was taken back\n"
    assert project.script.read_text() == NEW + "# mine\n"


@pytest.mark.parametrize("words", [("--diff",), ("--list",), ("--choose", "1"), (".graphdoc",)])
def test_undo_goes_with_nothing_else(project: Project, words: tuple[str, ...]) -> None:
    project("fix")
    status, out, _ = project("fix", "--undo", *words)
    assert (status, out) == (2, b"") and project.script.read_text() == NEW


def test_an_unsafe_fix_needs_to_be_asked_for(project: Project) -> None:
    project.fixes = (fix("cut", "unsafe"),)
    status, out, err = project("fix")
    assert (status, out) == (1, b"")
    assert err == (
        "graphdoc: not applied: it decides what the gradients mean\ngraphdoc: do cut [unsafe, not tried]\n"
        "graphdoc: note on cut\ngraphdoc: --diff prints it; --unsafe applies it\n"
    )
    assert project.script.read_text() == OLD
    assert project("fix", "--unsafe")[0] == 0
    assert project.script.read_text() == NEW


@pytest.mark.parametrize(
    ("fixes", "line"),
    [
        ((), "there is no patch for GD103: `graphdoc explain GD103` says more"),
        ((fix("shown", "display"),), "there is no patch for GD103"),
        ((fix("told", "safe", new=""),), "there is no patch for GD103"),
        (
            (fix("told", "display", new=""), fix("open", "placeholders", placeholders={"SIZE": "a number"})),
            "there is no complete patch: `graphdoc fix --diff --choose 2` prints one with `SIZE` to fill in",
        ),
        ((fix("wrong", "safe", verified=False),), "none of the fixes worked"),
    ],
)
def test_no_patch_is_status_1(project: Project, fixes: tuple[Fix, ...], line: str) -> None:
    project.fixes = fixes
    for words in (["fix", "--diff"], ["fix"]):
        status, out, err = project(*words, "--report", "json:r.json")
        assert (status, out) == (1, b"")
        assert err.startswith(f"graphdoc: {line}")
        assert json.loads((project.folder / "r.json").read_text())["diagnoses"][0]["code"] == "GD103"
    assert project.script.read_text() == OLD


def test_what_is_known_of_a_failure_without_a_diagnosis_is_pointed_to(project: Project) -> None:
    told = project.report

    def known(*given: Any, **more: Any) -> Report:
        return replace(told(*given, **more), outcome="other-failure", diagnoses=(), notes=("Under vmap …",))

    project.monkeypatch.setattr(graphdoc.diagnose, "report_for", known)
    project.monkeypatch.setattr(graphdoc.proposals.propose, "propose", lambda kept, report, **_: report)
    status, out, err = project("fix", "--diff")
    assert (status, out) == (1, b"")
    assert "nothing to fix" not in err
    assert "there is no patch: `graphdoc show` says what is known of this failure" in err


def test_a_fix_that_failed_makes_way_for_the_next(project: Project) -> None:
    other = OLD.replace("loss.backward()", "loss.sum().backward()")
    project.fixes = (fix("wrong", "safe", verified=False), fix("right", "safe", new=other))
    assert project("fix", "--diff")[1] == project.fixes[1].diff.encode()


def test_list_and_choose(project: Project) -> None:
    other = OLD.replace("loss.backward()", "loss.sum().backward()")
    project.fixes = (
        fix("detach", "safe", verified=True),
        fix("sum", "unsafe", new=other),
        fix("told", "display", new=""),
        fix("shown", "display"),
    )
    status, out, _ = project("fix", "--list")
    assert status == 0
    assert out.decode().splitlines()[::2] == [
        "1. do detach [safe, verified]",
        "2. do sum [unsafe, not tried]",
        "3. do told [by hand]",
        "4. do shown [by hand]",
    ]
    assert project("fix", "--diff", "--choose", "2")[1] == project.fixes[1].diff.encode()
    assert project("fix", "--diff", "--choose", "3")[0] == 2
    assert project("fix", "--choose", "4")[0] == 1
    assert project("fix", "--choose", "5")[2] == "graphdoc: there is no fix number 5: `graphdoc fix --list` shows 4\n"
    assert project("fix", "--choose", "0")[0] == 2
    assert project.script.read_text() == OLD


def test_a_patch_to_be_filled_in_is_written_only_where_that_is_asked_for_twice(project: Project) -> None:
    left = fix("open", "placeholders", new=OLD.replace("y * t", "y * SIZE"), placeholders={"SIZE": "a number"})
    project.fixes = (left, fix("detach", "safe", verified=True))
    assert project("fix", "--diff")[1] == project.fixes[1].diff.encode()
    assert project("fix", "--list")[1].decode().splitlines()[::2][:2] == [
        "1. do open [to fill in]",
        "   fill in `SIZE`: a number",
    ]
    status, out, err = project("fix", "--diff", "--choose", "1")
    assert (status, out) == (3, left.diff.encode())
    assert err == "graphdoc: do open [to fill in]; fill in `SIZE`: a number\n"
    status, _, err = project("fix", "--choose", "1")
    assert status == 1 and "not applied: it is to be filled in\ngraphdoc: do open [to fill in]" in err
    assert project.script.read_text() == OLD
    assert b"Fill in, before you run it: `SIZE`: a number." in project("fix", "--choose", "1", "--unsafe")[1]
    assert project.script.read_text() == OLD.replace("y * t", "y * SIZE")


def test_the_list_says_why_a_fix_was_rejected(project: Project) -> None:
    measured = {"summary": "the program now fails with KeyError: 1", "printed": "epoch 3: loss 0.5"}
    late = {"tried": False, "summary": "not tried: interrupted"}
    project.fixes = (
        fix("right", "safe", verified=True, verification={"summary": "it ran to its end"}),
        fix("late", "unsafe", verification=late),
        fix("wrong", "safe", verified=False, verification=measured),
    )
    assert project("fix", "--list")[1].decode() == (
        "1. do right [safe, verified]\n   note on right\n   verified: it ran to its end\n"
        "2. do late [unsafe, not tried]\n   note on late\n   not tried: interrupted\n"
        "3. do wrong [safe, tried, does not work]\n   note on wrong\n"
        "   tried, does not work: the program now fails with KeyError: 1\n"
        "   the last line that it printed: epoch 3: loss 0.5\n"
    )


def test_what_a_trial_has_changed_of_the_report_is_said(project: Project) -> None:
    wrong = fix("wrong", "safe", verified=False, verification={"summary": "it still fails"})
    project.told = (fix("wrong", "safe", new=""), fix("detach", "safe", new=""))
    project.fixes = (fix("detach", "safe", verified=True), wrong)
    assert project("fix", "--diff")[2].splitlines() == [
        "graphdoc: the report has another fix first: do wrong [tried, does not work]: it still fails",
        "graphdoc: do detach [safe, verified]",
    ]
    project.fixes = (wrong, fix("detach", "safe"))
    assert "another fix first" in project("fix", "--diff")[2]
    assert "another fix" not in project("fix", "--diff", "--choose", "2")[2]


@pytest.mark.parametrize("fixes", [(fix("late", "safe"),), (fix("good", "safe", verified=True),), ()])
def test_after_an_interruption_no_patch_is_printed_or_applied(project: Project, fixes: tuple[Fix, ...]) -> None:
    project.interrupted = 2
    project.fixes = fixes
    assert project("fix", "--diff") == (130, b"", "graphdoc: interrupted, so no patch is printed\n")
    assert project("fix") == (130, b"", "graphdoc: interrupted, so nothing was changed\n")
    status, out, _ = project("fix", "--list")
    assert status == 130 and out
    assert project.script.read_text() == OLD


@pytest.mark.parametrize("where", ["report", "propose"])
def test_an_interruption_at_any_other_time_is_one_line(project: Project, where: str) -> None:
    def interrupt(*_: Any, **__: Any) -> Report:
        os.kill(os.getpid(), signal.SIGINT)
        return project.report(*_, **__)

    place = graphdoc.diagnose if where == "report" else graphdoc.proposals.propose
    project.monkeypatch.setattr(place, "report_for" if where == "report" else "propose", interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for words in (["fix", "--diff"], ["fix"], ["fix", "--list"]):
        assert project(*words) == (130, b"", "graphdoc: interrupted\n")
    assert project.script.read_text() == OLD


def test_the_status_says_whether_the_patch_was_verified(project: Project) -> None:
    for verified, measured, status in [
        (True, {"summary": "it ran to its end"}, 0),
        (None, {}, 3),
        (None, {"summary": "the crash is gone, but it warns"}, 3),
    ]:
        project.fixes = (fix("cut", "unsafe", verified=verified, verification=measured),)
        assert project("fix", "--diff")[:2] == (status, project.fixes[0].diff.encode())
    project.fixes = (fix("wrong", "unsafe", verified=False),)
    assert project("fix", "--diff", "--choose", "1")[0] == 3


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"unmeasured": True}, "its gradients could not be measured"),
        ({"without_reference": True}, "there was nothing to compare its gradients with"),
        ({"max_relative_difference": 0.5}, "its gradients are not those of the program as it is written"),
        ({"max_relative_difference": 0.0}, "it decides what the gradients mean"),
    ],
)
def test_why_a_fix_needs_to_be_asked_for_is_what_its_trial_showed(
    project: Project, found: dict[str, Any], why: str
) -> None:
    """A fix that is safe by its kind is not, once its trial has not shown it to be."""
    project.fixes = (fix("drop", "unsafe", verification={**found, "summary": "so it ended"}),)
    status, _, err = project("fix")
    assert status == 1 and f"not applied: {why}\ngraphdoc: do drop [" in err and "]: so it ended\n" in err
    assert project.script.read_text() == OLD


def test_how_trials_are_asked_for(project: Project) -> None:
    project("fix", "--diff")
    assert (project.verify[-1], project.trying.asked, project.trying.seconds) == (True, False, 60.0)
    project("fix", "--diff", "--verify", "--verify-time", "5")
    assert (project.verify[-1], project.trying.asked, project.trying.seconds) == (True, True, 5.0)
    project("fix", "--diff", "--no-verify", "--no-rerun")
    assert project.verify[-1] is False and project.rerun is False


def test_report_holds_the_fix(project: Project) -> None:
    project("fix", "--diff", "--report", "json:r.json")
    report = json.loads((project.folder / "r.json").read_text())
    assert report["diagnoses"][0]["fixes"][0]["verified"] is True


def test_a_source_that_changed_is_refused(project: Project) -> None:
    project.script.write_text("# new\n" + OLD)
    for words in (["fix", "--diff"], ["fix"], ["fix", "--list"]):
        status, out, err = project(*words)
        assert (status, out) == (2, b"")
        assert err == "graphdoc: train.py has changed since the run: run the program again first\n"
    assert project.script.read_text() == "# new\n" + OLD
    project.script.unlink()
    assert "train.py is no longer there" in project("fix", "--diff")[2]


@pytest.mark.parametrize("words", [["fix", "--diff"], ["fix"]])
def test_a_source_that_changes_during_the_trials_is_refused(project: Project, words: list[str]) -> None:
    def edited(*given: Any, **more: Any) -> Report:
        project.script.write_text(OLD + "# saved meanwhile\n")
        return project.propose(*given, **more)

    project.monkeypatch.setattr(graphdoc.proposals.propose, "propose", edited)
    status, out, err = project(*words)
    assert (status, out) == (2, b"")
    assert "train.py has changed since the run" in err
    assert project.script.read_text() == OLD + "# saved meanwhile\n"


def test_fix_twice_is_refused(project: Project) -> None:
    assert project("fix")[0] == 0
    assert project("fix")[0] == 2
    assert project.script.read_text() == NEW


def test_nothing_kept(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["fix", "--diff"], ["fix"], ["show"]):
        status, out, err = project(*words)
        assert (status, out) == (2, b"")
        assert err.startswith("graphdoc: no run is kept in this folder yet") and err.count("\n") == 1


def test_truncated_evidence(project: Project) -> None:
    (file,) = project.folder.glob(".graphdoc/2*/evidence-1.json")
    file.write_text(file.read_text()[:100])
    for words in (["fix", "--diff"], ["fix", str(file)], ["show", str(file)]):
        status, out, err = project(*words)
        assert (status, out) == (2, b"")
        assert "truncated" in err and err.count("\n") == 1


def test_an_error_of_ours_is_one_line(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **more: Any) -> Report:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr(graphdoc.proposals.propose, "propose", broken)
    status, out, err = project("fix", "--diff")
    assert (status, out) == (2, b"")
    assert err == "graphdoc: internal error: ZeroDivisionError: two lines (GRAPHDOC_DEBUG=1 shows where)\n"


def test_show_renders_the_kept_run(project: Project) -> None:
    status, out, _ = project("show", "--format", "json")
    assert status == 0 and json.loads(out)["diagnoses"][0]["code"] == "GD103"
    assert b"GD103" in project("show")[1]
    assert project("show", "--format", "pdf")[0] == 2


def test_show_carries_the_patches_and_writes_the_reports_of_a_run(project: Project) -> None:
    status, out, _ = project("show", "--report", "markdown:again.md")
    assert status == 0 and b"+ loss = y * t.detach()" in out
    assert "+loss = y * t.detach()" in (project.folder / "again.md").read_text()
    assert project.verify == [False]  # nothing is run


def test_causes_lists_the_catalogue(project: Project) -> None:
    status, out, _ = project("causes", "--format", "json")
    entries = json.loads(out)
    assert status == 0 and all(e["code"].startswith("GD") for e in entries)
    assert len(project("causes")[1].splitlines()) == len(entries)
    assert len(project("causes", "--format", "markdown")[1].splitlines()) == len(entries) + 2
    assert project("causes", "--format", "xml")[0] == 2
