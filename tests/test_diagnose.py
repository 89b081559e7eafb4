"""Evidence to report: what is none of autograd's is left alone; findings are ranked; processes are told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pages import page

import graphdoc.diagnose
from graphdoc.causes.base import Cause
from graphdoc.diagnose import diagnose, findings_for, report_for, so_far
from graphdoc.evidence import Evidence, Frame, Optimizer, Process, Raised, Stale, Tensor, Write
from graphdoc.finding import Finding, Remedy
from graphdoc.launch import Request
from graphdoc.launch.keep import Kept
from graphdoc.model import Span
from graphdoc.probe import deepened, question
from graphdoc.program.proof import Proof
from graphdoc.render import render
from graphdoc.render.story import level

SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)
VERSION = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [8, 8]], which is output 0 of AsStridedBackward0, is at version 3; expected version 2 instead. "
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True)."
)
NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"
NOT_OURS = [
    ("KeyError", "'loss'"),
    ("KeyboardInterrupt", ""),
    ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)"),
    ("RuntimeError", "CUDA out of memory. Tried to allocate 2.00 GiB"),
    ("ValueError", "not enough values to unpack (expected 2, got 1)"),
    ("AttributeError", "'NoneType' object has no attribute 'grad_fn'"),
    ("AssertionError", "gradient is zero"),
]


def failed(kind="RuntimeError", message=SECOND_TIME, *, uncaught=True, rank=-1, world=1, written=1.0, pid=7):
    process = Process(pid=pid, rank=rank, world_size=world, argv=["train.py"], python="3.11.7", torch="2.13.0")
    process.written = written
    frames = [Frame("train.py", 30, 5, 30, 20, "<module>"), Frame("/x/torch/_tensor.py", 600, user=False)]
    return Evidence(process=process, raised=Raised(kind, message, frames, uncaught))


def cause(code, slug, finding):
    recognise = finding if callable(finding) else lambda evidence: finding
    return Cause(slug, page(code=code, title=slug, families=("graph-reuse",)), recognise)


def finding(strength, confidence="likely", line=1, remedies=()):
    return Finding(strength, confidence, "t", "e", (Span("cause", "train.py", line, 1, line, 2),), (), remedies)


@pytest.fixture
def causes(monkeypatch):
    def use(*found):
        monkeypatch.setattr(graphdoc.diagnose, "all_causes", lambda: found)

    return use


def kept_run(folder, *evidence, exit_status=1, rerun=False):
    files = []
    for number, one in enumerate(evidence):
        files.append(folder / f"evidence-{one.process.pid or number}.json")
        one.write(str(files[-1]))
    return Kept(folder, Request(["train.py"], cwd=str(folder)), exit_status, None, 2.0, (), tuple(files), rerun)


@pytest.mark.parametrize(("kind", "message"), NOT_OURS)
def test_an_ordinary_exception_gets_no_diagnosis(causes, tmp_path, kind, message):
    causes(cause("GD101", "eager", finding(1.0)))
    report = report_for(kept_run(tmp_path, failed(kind, message)))
    assert (report.outcome, report.diagnoses, report.notes) == ("other-failure", (), ())
    assert report.exception == {"type": kind, "message": message}


def test_a_caught_error_of_a_run_that_ended_well_is_one_note(causes, tmp_path):
    causes(cause("GD101", "eager", finding(1.0)))
    report = report_for(kept_run(tmp_path, failed(uncaught=False), exit_status=0))
    assert (report.outcome, report.diagnoses, report.exception) == ("completed", (), None)
    (note,) = report.notes
    assert note.startswith("an autograd error was raised at train.py:30 and caught by the program: Trying to backward")
    assert note.endswith("`graphdoc run --audit all` tells its cause.")


@pytest.mark.parametrize(
    ("in_a_row", "optimizers", "mode", "told"),
    [(3, 1, "", True), (2, 1, "", False), (3, 0, "", False), (1, 0, "audit-all", True)],
)
def test_a_caught_error_is_told_where_nothing_was_trained_since(causes, tmp_path, in_a_row, optimizers, mode, told):
    causes(cause("GD101", "eager", finding(1.0)))
    evidence = failed(uncaught=False)
    assert evidence.raised is not None
    evidence.raised.in_a_row, evidence.optimizers = in_a_row, [Optimizer(0, "SGD")] * optimizers
    kept = kept_run(tmp_path, evidence, exit_status=0)
    report = report_for(replace(kept, request=replace(kept.request, mode=mode)))
    assert (report.outcome, [d.cause for d in report.diagnoses]) == ("completed", ["eager"] if told else [])
    assert level(report) == "warning"


def test_a_caught_error_of_a_run_that_failed_is_diagnosed(causes, tmp_path):
    causes(cause("GD101", "eager", finding(1.0)))
    report = report_for(kept_run(tmp_path, failed(uncaught=False), exit_status=3))
    assert report.outcome == "autograd-failure" and report.run.exit_status == 3


def test_a_run_without_evidence(tmp_path):
    assert report_for(kept_run(tmp_path, exit_status=0)).outcome == "completed"
    report = report_for(kept_run(tmp_path, exit_status=3))
    assert (report.outcome, report.exception, report.notes) == ("other-failure", None, ())


def test_damaged_evidence_costs_a_note(tmp_path):
    kept = kept_run(tmp_path, failed())
    kept.evidence[0].write_text('{"version": 1, "proc')
    report = report_for(kept)
    assert report.outcome == "other-failure" and "truncated" in report.notes[0]


def test_a_recogniser_that_raises_is_told_and_the_others_go_on(causes):
    def broken(evidence):
        raise IndexError("list index out of range")

    causes(cause("GD101", "broken", broken), cause("GD102", "whole", finding(0.9)))
    report = diagnose(failed())
    assert [d.cause for d in report.diagnoses] == ["whole"]
    assert report.notes == ("the recogniser of broken failed: IndexError: list index out of range",)


def test_the_best_evidence_comes_first_and_weak_findings_are_left_out(causes):
    strengths = {"a": 0.5, "b": 0.9, "c": 1.0, "d": 0.8, "e": 0.9}
    confidences = {"e": "certain"}
    causes(
        *(cause(f"GD10{i}", s, finding(x, confidences.get(s, "likely"))) for i, (s, x) in enumerate(strengths.items()))
    )
    assert [f.cause.slug for f in findings_for(failed())[0]] == ["c", "e", "b"]
    causes(cause("GD101", "a", finding(1.0)), cause("GD102", "b", finding(0.55)))
    assert [f.cause.slug for f in findings_for(failed())[0]] == ["a"]


def test_what_proves_a_diagnosis_is_told_with_it(causes):
    causes(cause("GD101", "a", finding(1.0, Proof.RAISED.confidence)), cause("GD102", "b", finding(0.9)))
    report = diagnose(failed())
    assert [(d.confidence, d.proof) for d in report.diagnoses] == [("certain", Proof.RAISED.value), ("likely", "")]
    assert f"= certain: {Proof.RAISED.value}\n" in render(report, "terminal", width=100)


def test_an_error_without_a_cause_says_what_is_known(causes):
    causes(cause("GD101", "carried-state", None))
    report = diagnose(failed())
    assert report.diagnoses == ()
    (note,) = report.notes
    assert "does not show which cause" in note and "carried-state (GD101)" in note


def test_a_warning_that_a_filter_makes_an_error_has_its_place_and_its_way_out():
    report = diagnose(failed("UserWarning", "Using backward() with create_graph=True will create a reference cycle"))
    (note,) = report.notes
    assert note.startswith("at train.py:30: backward(create_graph=True) leaves ")
    assert note.endswith(" Call `torch.autograd.grad` instead, or set each `.grad` to None after use.")


def test_remedies_become_fixes_without_a_diff(causes):
    remedies = (Remedy("detach_after", "detach it", "unsafe", "then h ends here"), Remedy("", "think", "display"))
    causes(cause("GD101", "a", finding(1.0, remedies=remedies)))
    first, second = diagnose(failed()).diagnoses[0].fixes
    assert (first.id, first.title, first.safety) == ("detach_after", "detach it", "unsafe")
    assert first.note == "then h ends here"
    assert first.diff == second.diff == "" and first.verified is None


def test_the_first_failing_rank_speaks(causes, tmp_path):
    causes(cause("GD101", "a", lambda e: finding(1.0, line=e.evidence.process.rank + 1)))
    report = report_for(
        kept_run(
            tmp_path,
            failed(rank=3, world=5, written=3.0, pid=13),
            failed(rank=1, world=5, written=1.0, pid=11),
            failed("torch.distributed.DistBackendError", "Connection closed", rank=0, world=5, written=2.0, pid=10),
            failed("torch.multiprocessing.spawn.ProcessRaisedException", "Process 1", rank=-1, written=4.0, pid=9),
        )
    )
    assert report.run.ranks == 5 and report.diagnoses[0].spans[0].line == 2
    (note,) = report.notes
    assert note.startswith("of 5 ranks, rank 1 failed first; rank 3 failed in the same way; rank 0 ended with another")
    assert "ranks 2, 4 raised nothing" in note and "-1" not in note


def stale(*writes, current=3):
    return Stale(0, "_saved_self", Tensor("activation"), 2, current, writes=list(writes))


def test_what_a_second_run_is_asked(tmp_path):
    version = failed(message=VERSION)
    assert question(version) == ""  # no stale tensor was found: nothing to watch
    version.stale = [stale()]
    assert question(version) == "probe:writes"
    version.stale = [stale(Write("add_"))]
    assert question(version) == ""
    version.stale = [stale(Write("SGD.step"), current=4)]
    assert question(version) == "probe:writes"
    version.stale = [stale(Write("AdamW.step", moved=2), current=4)]
    assert question(version) == ""
    version.stale = [stale(Write("LBFGS.step", moved=-1), current=9)]
    assert question(version) == "probe:writes"  # it writes as often as it searches, so others may have written too
    version.stale = [stale(Write("Lion.step", moved=-1), Write("Lion.step", moved=-1), current=4)]
    assert question(version) == ""
    version.stale = [stale(Write("Lion.step", moved=-1), Write("Lion.step", moved=-1), current=5)]
    assert question(version) == "probe:writes"  # three writes cannot be two equal steps
    version.probe = "probe:writes"
    version.stale = [stale()]
    assert question(version) == ""
    assert question(failed(message=NO_GRAPH)) == "probe:cuts"
    assert question(failed()) == ""


CUT = """\
import os
import torch
net = torch.nn.Linear(2, 1)
loss = net(torch.ones(1, 2)).sum()
loss = torch.tensor(loss.item())
{}
loss.backward()
"""


def real_run(folder, source):
    from graphdoc.launch import launch
    from graphdoc.launch.keep import keep

    (folder / "train.py").write_text(source)
    out = folder / "run"
    out.mkdir()
    request = Request(["train.py"], cwd=str(folder), quiet=True)
    return keep(out, request, launch(request, out))


@pytest.mark.slow
def test_a_second_run_finds_the_cut_and_is_made_once(tmp_path):
    kept = real_run(tmp_path, CUT.format(""))
    said: list[str] = []
    report = report_for(kept, announce=lambda line, *_: said.append(line))
    assert len(said) == 1 and "once more" in said[0] and "--no-rerun" in said[0]
    assert report.diagnoses[0].cause == "cut-by-conversion"
    second = deepened(kept, Evidence.read(str(kept.evidence[0])).process)
    assert second is not None and second.probe == "probe:cuts"
    assert report_for(kept, announce=lambda line, *_: said.append(line)) == report
    assert report_for(replace(kept, rerun=False)) == report  # as `graphdoc show` asks: known, so nothing is run
    assert len(said) == 1


@pytest.mark.slow
def test_a_second_run_that_does_not_fail_is_told(tmp_path):
    once = "if os.path.exists('been-here'): raise SystemExit\nopen('been-here', 'w').close()"
    kept = real_run(tmp_path, CUT.format(once))
    report = report_for(kept, announce=lambda *_: None)
    assert report.outcome in ("autograd-failure", "other-failure")
    assert any("did not fail in the same way" in note for note in report.notes)


NOT_FINITE = """
import torch
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = (net(torch.zeros(2, 3)) * 0 - 1).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_before_a_second_run_it_is_not_told_that_one_is_needed(tmp_path):
    kept = real_run(tmp_path, NOT_FINITE)
    assert [d.code for d in report_for(replace(kept, rerun=False)).diagnoses] == ["GD619"]
    assert so_far(kept).diagnoses == ()


def test_before_a_second_run_nothing_is_told_that_is_only_possible(tmp_path):
    kept = kept_run(tmp_path, failed(message=NO_GRAPH))
    assert {d.confidence for d in report_for(replace(kept, rerun=False)).diagnoses} == {"possible"}
    first = so_far(kept)
    assert first.diagnoses == () and first.notes[0].startswith("at train.py:30: the tensor on which backward")
    assert so_far(kept_run(tmp_path, failed("ValueError", "no"))).notes == ()


def test_no_second_run_without_leave(tmp_path):
    evidence = failed(message=NO_GRAPH)
    kept = kept_run(tmp_path, evidence)
    report_for(kept, announce=lambda line, *_: pytest.fail(line))
    assert deepened(kept, evidence.process) is None
