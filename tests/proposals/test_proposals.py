"""From what a cause asks for to patches: built on the text of the run, for the project's own files, tried in order."""

from __future__ import annotations

import hashlib
import subprocess

import pytest
from commands import graphdoc as run_command
from examples import FOLDER as EXAMPLES
from pages import page

import graphdoc.diagnose
from graphdoc.causes.base import Cause
from graphdoc.diagnose import fix_of, report_for
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence, Frame, Process, Raised
from graphdoc.finding import Finding, Remedy
from graphdoc.launch import Request, launch
from graphdoc.launch.keep import Kept, keep
from graphdoc.model import Fix
from graphdoc.proposals import Candidate
from graphdoc.proposals.propose import in_order, propose
from graphdoc.proposals.trying import Trying, _note
from graphdoc.verify.compared import Verdict

MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed)."
)

NO_ARRAY = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."

SOURCE = """\
import torch

torch.manual_seed(0)
cell, head = torch.nn.LSTMCell(3, 8), torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state = (torch.zeros(1, 8), torch.zeros(1, 8))
for _ in range(8):
    state = cell(torch.randn(1, 3), state)
    loss = head(state[0]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PAIR = {"tuple": ["tensor", "tensor"]}
AT_STEP = {"file": "train.py", "line": 12}
AT_CELL = {"file": "train.py", "line": 8}

TOO_EARLY = Remedy(
    "detach_assigned", "detach where it is made", "unsafe", args={"place": AT_CELL, "targets": [["state", PAIR]]}
)
AFTER_STEP = Remedy(
    "detach_after", "detach after the step", "unsafe", args={"after": AT_STEP, "paths": [["state", PAIR]]}
)
HALF = Remedy(
    "detach_after",
    "detach a half",
    "unsafe",
    args={"after": AT_STEP, "paths": [["state", {"tuple": ["tensor", None]}]]},
)
IMPOSSIBLE = Remedy(
    "detach_after", "detach nothing", "unsafe", args={"after": {"file": "train.py", "line": 99}, "paths": ["x"]}
)
ADVICE = Remedy("surrogate", "think again", "display", note="some thoughts")


@pytest.fixture
def remedies(monkeypatch):
    def use(*wanted):
        found = Finding(1.0, "certain", "t", "e", (), (), wanted)
        cause = Cause("carried-state", page(code="GD101", title="t"), lambda evidence: found)
        monkeypatch.setattr(graphdoc.diagnose, "all_causes", lambda: (cause,))

    return use


def kept_run(folder, file="train.py", text=SOURCE):
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    raised = Raised("RuntimeError", MESSAGE, [Frame(file, 11)])
    evidence = Evidence(process=Process(pid=7, cwd=str(folder)), raised=raised)
    evidence.sources[file] = text
    evidence.hashes[file] = hashlib.sha256(path.read_bytes()).hexdigest()
    out = folder / "run"
    out.mkdir()
    evidence.write(str(out / "evidence-7.json"))
    return Kept(out, Request(["train.py"], cwd=str(folder)), 1, evidence=(out / "evidence-7.json",), rerun=False)


def fixes_of(report):
    return report.diagnoses[0].fixes


def test_a_source_that_changed_since_the_run_is_refused(remedies, tmp_path):
    remedies(AFTER_STEP)
    kept = kept_run(tmp_path)
    (tmp_path / "train.py").write_text(SOURCE + "# more\n")
    with pytest.raises(UsageError, match=r"train\.py has changed since the run"):
        propose(kept, report_for(kept), verify=False)


@pytest.mark.parametrize("file", ["../elsewhere.py", "env/lib/python3.11/site-packages/pkg/mod.py"])
def test_files_of_others_are_left_alone(remedies, tmp_path, file):
    project = tmp_path / "project"
    project.mkdir()
    args = {"after": {"file": file, "line": 12}, "paths": [["state", PAIR]]}
    remedies(Remedy("detach_after", "detach it", "unsafe", args=args))
    kept = kept_run(project, file)
    report = propose(kept, report_for(kept), verify=False)
    assert fixes_of(report) == ()
    assert report.left_out[-1].startswith("detach it: ")


def test_what_cannot_be_built_is_left_out_with_its_reason(remedies, tmp_path):
    remedies(IMPOSSIBLE, Remedy("no_such_kind", "Nothing", "safe"), ADVICE, AFTER_STEP)
    kept = kept_run(tmp_path)
    report = propose(kept, report_for(kept), verify=False)
    assert [f.title for f in fixes_of(report)] == ["think again", "detach after the step"]
    assert any("detach nothing" in reason for reason in report.left_out)
    assert any("no_such_kind" in reason for reason in report.left_out)


def test_what_its_user_is_to_finish_is_never_tried(remedies, tmp_path):
    def open_at(line, name):
        args = {"place": {"file": "train.py", "line": line}, "statement": f"SIZE = {name}"}
        return Remedy("add_statement", f"choose at {line}", "placeholders", args=args, placeholders={name: "a number"})

    remedies(open_at(12, "WIDTH"), open_at(99, "WIDTH"), open_at(12, "state"), open_at(12, "loss"))
    kept = kept_run(tmp_path)
    trying = Trying(seconds=30.0, asked=True)
    report = propose(kept, report_for(kept), trying=trying)
    found, *described = fixes_of(report)
    assert found.placeholders == {"WIDTH": "a number"} and "+    SIZE = WIDTH" in found.diff
    assert found.verified is None and found.verification == {} and not found.is_complete
    # A name that the program has would run unnoticed; what cannot be written is told in words.
    assert [(f.safety, f.diff, dict(f.placeholders)) for f in described] == [("display", "", {})] * 3


TWO_LOSSES = """\
import torch

critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.{layer}, torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
score = critic(torch.ones(4, 3))
score.mean().backward(retain_graph=True)
optimizer.step()
score.square().mean().backward()
"""
FORWARD_AGAIN = Remedy(
    "recompute_after",
    "run the forward again",
    "unsafe",
    args={"places": [{"file": "train.py", "line": 5}], "after": {"file": "train.py", "line": 7}},
)
WITHOUT_A_FORWARD = Remedy(
    "detach_assigned",
    "detach the score",
    "unsafe",
    args={"place": {"file": "train.py", "line": 5}, "targets": [["score", "tensor"]]},
)


@pytest.mark.parametrize(("layer", "again_first"), [("Tanh()", True), ("Dropout(0.5)", False)])
def test_a_second_forward_that_draws_anew_is_shown_behind_what_needs_none(remedies, tmp_path, layer, again_first):
    remedies(FORWARD_AGAIN, WITHOUT_A_FORWARD)
    kept = kept_run(tmp_path, text=TWO_LOSSES.format(layer=layer))
    report = propose(kept, report_for(kept), verify=False)
    assert report.left_out == ()
    assert [f.title == FORWARD_AGAIN.title for f in fixes_of(report)] == [again_first, not again_first]


def test_the_patch_applies_with_git(remedies, tmp_path):
    remedies(AFTER_STEP, AFTER_STEP, TOO_EARLY, HALF)
    kept = kept_run(tmp_path)
    report = propose(kept, report_for(kept), verify=False)
    fixes = fixes_of(report)
    assert [f.id for f in fixes] == ["detach_after", "detach_assigned", "detach_after-2"]
    assert all(f.verified is None for f in fixes)
    (tmp_path / "p.diff").write_text(fixes[0].diff)
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "train.py").read_text() == SOURCE + "    state = tuple(t.detach() for t in state)\n"


def test_nothing_to_fix_without_evidence(tmp_path):
    kept = Kept(tmp_path, Request(["train.py"], cwd=str(tmp_path)), 0)
    report = report_for(kept)
    assert propose(kept, report) is report


@pytest.mark.slow
def test_the_fix_that_keeps_the_gradients_comes_first(remedies, tmp_path):
    remedies(TOO_EARLY, HALF, ADVICE, AFTER_STEP)
    (tmp_path / "train.py").write_text(SOURCE)
    out = tmp_path / "run"
    out.mkdir()
    request = Request(["train.py"], cwd=str(tmp_path), quiet=True)
    kept = keep(out, request, launch(request, out))
    kept.save()
    lines: list[str] = []
    announced: list[str] = []
    trying = Trying(progress=lambda line, *_: lines.append(line), announce=announced.append)
    report = propose(kept, report_for(kept), verify=True, trying=trying)
    assert [(f.title, f.verified) for f in fixes_of(report)] == [
        ("detach after the step", True),
        ("think again", None),
        ("detach where it is made", False),
        ("detach a half", False),
    ]
    best, _, early, half = fixes_of(report)
    assert best.verification["steps"] == 8 and best.verification["lost_gradient"] == []
    assert early.verification["lost_gradient"] == ["cell.bias_hh", "cell.bias_ih", "cell.weight_hh", "cell.weight_ih"]
    assert half.verification["summary"] == "the program still fails in the same way"
    assert lines == [
        "trying fix 1 of 3: detach where it is made",
        "trying fix 2 of 3: detach a half",
        "trying fix 3 of 3: detach after the step",
        "",
    ]
    assert (tmp_path / "train.py").read_text() == SOURCE
    assert announced == [
        "running train.py again to try the fixes, for at most 60 s in all (--verify-time; --no-verify prevents it)"
    ]
    # What was tried is kept with the run.
    again = Trying(announce=announced.append)
    known = propose(kept, report_for(kept), verify=True, trying=again)
    assert fixes_of(known) == fixes_of(report) and len(announced) == 1
    assert fixes_of(propose(kept, report_for(kept), verify=False, trying=again)) == fixes_of(report)


def test_a_patch_is_not_called_verified_where_its_cause_leaves_a_question_open():
    remedy = Remedy("drop_call", "Keep it", "unsafe", open="which use is meant, no run tells")
    candidate = Candidate(Fix("1", "Keep it", "unsafe"), remedy, {"train.py": ""})
    _note(candidate, Verdict(True, "it ran", {}))
    assert candidate.fix.verified is None
    assert candidate.fix.verification["summary"] == "it ran; but which use is meant, no run tells"


@pytest.mark.parametrize(
    ("message", "shown", "measured", "told", "tried"),
    [
        (MESSAGE, False, {"max_relative_difference": 0.0}, "safe", "safe"),
        (MESSAGE, False, {"max_relative_difference": 0.5}, "safe", "unsafe: other gradients"),
        (MESSAGE, False, {"unmeasured": True}, "safe", "likely safe"),
        (NO_ARRAY, False, {"without_reference": True}, "likely safe", "likely safe"),
        (NO_ARRAY, True, {"without_reference": True}, "safe", "safe"),
    ],
)
def test_the_report_calls_safe_what_fix_applies(message, shown, measured, told, tried):
    """Gradients can be compared only where the unpatched program can be made to go on behind its failure."""
    remedy = Remedy("to_numpy", "detach it", "safe", args={"only_shown": shown})
    fix = fix_of(remedy, Evidence(process=Process(pid=1), raised=Raised("RuntimeError", message)))
    assert (fix.how_safe, fix.safety) == (told, "safe" if told == "safe" else "unsafe")
    candidate = Candidate(fix, remedy, {"train.py": ""})
    _note(candidate, Verdict(True, "it ran", measured))
    assert (candidate.fix.how_safe, candidate.fix.safety) == (tried, "safe" if tried == "safe" else "unsafe")


@pytest.mark.slow
def test_what_is_called_safe_is_applied(tmp_path):
    source = (EXAMPLES / "numpy-on-grad-tensor" / "outputs-printed-in-the-loop.py").read_text()
    (tmp_path / "train.py").write_text(source)
    assert "[safe, not tried" in run_command(tmp_path, "run", "train.py", forked=True).stderr
    assert "[safe, verified]" in run_command(tmp_path, "fix", "--diff", "--verify-time", "240").stderr
    assert "[safe, verified]" in run_command(tmp_path, "show").stdout
    assert run_command(tmp_path, "fix").returncode == 0
    assert (tmp_path / "train.py").read_text() == source.replace("[0].numpy", "[0].detach().cpu().numpy", 1)


def test_what_went_past_the_failure_comes_before_what_was_not_tried():
    def candidate(name, verified=None, settled=False, **told):
        return Candidate(Fix(name, name, "unsafe", verified=verified, verification=told), settled=settled)

    candidates = [
        candidate("failed", verified=False, passed_crash=True),
        candidate("untried", tried=False, open=True),
        candidate("doubted", passed_crash=True),
        candidate("too late to compare", passed_crash=True, open=True),
        candidate("not reached in time", passed_crash=None, open=True),
        candidate("nothing to measure by", settled=True, passed_crash=True),
        candidate("verified, of two draws", verified=True, draws_again=True),
        candidate("verified", verified=True, settled=True, passed_crash=True),
    ]
    assert [c.fix.id for c in in_order(candidates)] == [
        "verified",
        "verified, of two draws",
        "nothing to measure by",
        "too late to compare",
        "untried",
        "doubted",
        "not reached in time",
        "failed",
    ]
