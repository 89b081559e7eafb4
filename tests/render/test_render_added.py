"""What a report adds to that of the first run alone, which was told before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphdoc.model import Diagnosis, Fix, Report, Run, Span
from graphdoc.render import render

SOURCE = "h = cell(x, h)\nloss = h.sum()\nloss.backward()\nopt.step()\n"
DIFF = "--- a/train.py\n+++ b/train.py\n@@ -4 +4,2 @@\n opt.step()\n+h = h.detach()\n"


def _at(line: int, label: str = "kept here") -> Span:
    return Span("cause", "train.py", line, 1, line, 5, label)


FIX = Fix("detach", "detach `h`", "unsafe", DIFF, "It becomes a constant.")
LIKELY = Diagnosis(
    "GD101", "carried-state", "likely", "`h` is carried", "It has a graph.", (_at(1),), because="it was made before"
)
CERTAIN = replace(LIKELY, confidence="certain", because="it was made before #1")
OTHER = Diagnosis("GD103", "undetached-target", "certain", "`t` has a graph", "It is a target.", (_at(2),))
FURTHER = Diagnosis("GD305", "constant-loss", "likely", "the loss is a constant", "It is.", (_at(2),))


def _report(*diagnoses: Diagnosis, notes: tuple[str, ...] = ()) -> Report:
    return Report(Run(("train.py",), exit_status=1), "autograd-failure", None, diagnoses, notes, {"train.py": SOURCE})


def _added(first: Report, then: Report) -> list[str]:
    return [line for line in render(then, "terminal", told=first).splitlines() if line]


@pytest.mark.parametrize(
    ("then", "line"),
    [
        (CERTAIN, "now certain"),
        (replace(LIKELY, spans=(_at(2),)), "the place to go to is line 2"),
        (replace(LIKELY, spans=(_at(2), replace(_at(1), file="net.py"))), "the place to go to is train.py:2"),
        (replace(LIKELY, title="`h` is kept"), "more is known of it"),
        (LIKELY.with_fixes((FIX,)), "a patch"),
        (replace(CERTAIN, spans=(_at(4),)).with_fixes((FIX,)), "now certain; the place to go to is line 4; a patch"),
        (OTHER, "this takes the place of what is told above"),
    ],
)
def test_the_line_says_what_is_new(then: Diagnosis, line: str) -> None:
    assert _added(_report(LIKELY), _report(then))[0] == f"looked closer: {line}"


def test_nothing_is_told_twice() -> None:
    told = render(_report(LIKELY.with_fixes((FIX,))), "terminal").splitlines()
    added = _added(_report(LIKELY.with_fixes((FIX,))), _report(CERTAIN.with_fixes((FIX,))))
    assert added == ["looked closer: now certain", "  = certain: it was made before #1"]
    assert not set(added) & set(told)
    assert _added(_report(LIKELY), _report(LIKELY)) == ["looked closer: nothing new"]


def test_another_cause_is_told_whole() -> None:
    added = _added(_report(LIKELY.with_fixes((FIX,))), _report(OTHER.with_fixes((FIX,))))
    assert added[1:] == [line for line in render(_report(OTHER.with_fixes((FIX,))), "terminal").splitlines() if line]


def test_nothing_is_taken_back_without_a_word() -> None:
    assert _added(_report(LIKELY), _report()) == ["looked closer: what is told above does not hold"]
    assert _added(_report(LIKELY, FURTHER), _report(LIKELY)) == ["looked closer: GD305 does not hold"]
    assert _added(_report(LIKELY.with_fixes((FIX,))), _report(LIKELY))[0] == (
        "looked closer: the patch above does not hold"
    )
    other = replace(FIX, diff=DIFF.replace("h = h.detach()", "h = h.data"))
    added = _added(_report(LIKELY.with_fixes((FIX,))), _report(LIKELY.with_fixes((other,))))
    assert added[0] == "looked closer: another patch" and "  + h = h.data" in added


def test_a_note_says_itself_what_has_come_of_it() -> None:
    note = "no second run has looked closer: it was interrupted"
    assert _added(_report(LIKELY), _report(LIKELY, notes=(note,))) == [f"note: {note}"]


def test_a_report_whose_first_one_knew_no_cause_is_told_whole() -> None:
    first = _report(notes=("the tensor has no graph at line 3.",))
    whole = [line for line in render(_report(CERTAIN), "terminal").splitlines() if line]
    assert _added(first, _report(CERTAIN)) == whole
