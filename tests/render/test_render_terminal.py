"""The words of the terminal report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from graphdoc.model import Confidence, Diagnosis, Fix, Report, Run, Span
from graphdoc.render import render
from graphdoc.render.story import badge, measured
from graphdoc.render.text import wrap

ONE_CHANGE = "--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-a = q - v\n+a = (q - v).detach()\n"


def told(*fixes: Fix, confidence: Confidence = "certain") -> list[str]:
    span = Span("cause", "t.py", 1, 5, 1, 10, "carries a graph")
    found = Diagnosis("GD103", "undetached-target", confidence, "what happened", "Why it did.", (span,), (), fixes)
    report = Report(Run(), "autograd-failure", diagnoses=(found,), sources={"t.py": "a = q - v\n"})
    return render(report, "terminal", width=80).splitlines()


def test_windows_line_ends_are_not_drawn() -> None:
    patch = "--- a/t.py\n+++ b/t.py\n@@ -1,3 +1,4 @@\n a = q - v\r\n+b = a\r\n c = a\r\n-d = a\r\n+d = b\r\n"
    report = "\n".join(told(Fix("detach", "detach it", "safe", patch)))
    assert "1 | a = q - v\n  + b = a\n...\n3 - d = a\n  + d = b\n" in report
    assert "\\x0d" not in report


def test_a_whole_report() -> None:
    fix = Fix("detach", "detach it", "safe", ONE_CHANGE, "nothing flows back", True, {"summary": "3 steps more"})
    other = Fix("no-grad", "wrap it", "display", "", "by hand")
    assert told(fix, other) == [
        "error[GD103]: what happened",
        "Why it did.",
        " --> t.py:1:5",
        "  |",
        "1 | a = q - v",
        "  |     ^^^^^ carries a graph",
        "  |",
        "  = certain: the recorded run proves it",
        "help: detach it [safe, verified]",
        "  |",
        "1 - a = q - v",
        "  + a = (q - v).detach()",
        "  |",
        "  = effect: nothing flows back",
        "  = measured: 3 steps more",
        "  = more: `graphdoc explain GD103`; 1 other fix: `graphdoc fix --list`",
        "apply it: graphdoc fix",
    ]


def test_places_lead_to_files_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spans = (Span("cause", "a b.py", 1, 5, 1, 10, "made"), Span("failed", "gone.py", 2, 1, 2, 3, "used"))
    found = Diagnosis("GD103", "undetached-target", "certain", "what happened", "Why it did.", spans)
    report = Report(Run(), "autograd-failure", diagnoses=(found,), sources={"a b.py": "a = q - v\n"})
    (tmp_path / "a b.py").write_text("a = q - v\n")
    linked = render(report, "terminal", width=80, color=True, links=True)
    address = f"{tmp_path.as_uri()}/a%20b.py#1"
    assert re.findall(r"\x1b]8;id=\d+;(.+?)\x1b\\(?:\x1b\[\d+m)?(.+?)\x1b", linked) == [(address, "a b.py:1:5")]
    assert "\x1b]8" not in render(report, "terminal", width=80, color=True)
    assert "\x1b" not in render(report, "terminal", width=80, links=True)


def long_story(calls: int) -> list[str]:
    """The report on a fault with this many earlier calls, each on a line of its own."""
    source = "".join(f"call_{n}()\n" for n in range(1, calls + 2))
    cause = Span("cause", "t.py", calls + 1, 1, calls + 1, 5, "the line to change")
    spans = [Span("freed", "t.py", n, 1, n, 7, f"number {n}", (n, 0)) for n in range(calls, 0, -1)]
    found = Diagnosis("GD103", "undetached-target", "certain", "title", "Why.", (cause, *spans), ("measured",))
    return render(
        Report(Run(), "autograd-failure", diagnoses=(found,), sources={"t.py": source}), "terminal", width=80
    ).splitlines()


def test_places_are_numbered_in_order_of_time_and_only_the_one_to_change_is_marked() -> None:
    lines = long_story(3)
    assert [line.split("- ")[1] for line in lines if "---" in line and "- " in line][-3:] == [
        "1  number 1",
        "2  number 2",
        "3  number 3",
    ]
    assert sum("^" in line for line in lines) == 1
    assert lines.index("how it happened:") > next(i for i, line in enumerate(lines) if "^" in line)


def test_at_most_five_places_are_told_beside_the_one_to_change() -> None:
    assert sum("number" in line for line in long_story(9)) == 5


def test_a_second_diagnosis_is_one_line() -> None:
    first, second = (Diagnosis(f"GD10{n}", "x", "likely", f"title {n}", "Why.") for n in (1, 2))
    text = render(Report(Run(), "autograd-failure", diagnoses=(first, second)), "terminal", width=100)
    assert text.splitlines()[-1] == "also: title 2 [GD102, likely]: `graphdoc explain GD102`"


def test_confidence_is_said() -> None:
    assert "  = likely: it fits what was seen, and nothing speaks against it" in told(confidence="likely")
    assert "  = possible: one of the reasons that fit" in told(confidence="possible")


def test_fix_is_offered_only_where_there_is_a_patch_to_print() -> None:
    assert told()[-1] == "  = more: `graphdoc explain GD103`"
    assert told(Fix("x", "x", "display", ONE_CHANGE))[-1] == "  = more: `graphdoc explain GD103`"


OPEN = Fix("x", "write it", "placeholders", ONE_CHANGE, placeholders={"WIDTH": "a number above 0"})


def test_what_is_left_to_the_user_is_told_with_the_command_that_prints_the_patch() -> None:
    lines = told(OPEN)
    assert "help: write it [to fill in]" in lines
    assert "  = fill in: `WIDTH`: a number above 0" in lines
    assert lines[-1] == "print it: graphdoc fix --diff --choose 1"
    assert not any("fill in" in line for line in told(replace(OPEN, diff="")))


@pytest.mark.parametrize("name", ["github", "markdown", "html", "sarif", "json"])
def test_every_format_that_tells_of_a_fix_says_what_is_to_be_filled_in(name: str) -> None:
    found = Diagnosis(
        "GD103", "undetached-target", "certain", "t", "e", (Span("cause", "t.py", 1, 1, 1, 2),), (), (OPEN,)
    )
    text = render(Report(Run(), "autograd-failure", diagnoses=(found,)), name)
    assert "WIDTH" in text and "a number above 0" in text


def test_badges() -> None:
    fix = Fix("x", "x", "unsafe", ONE_CHANGE)
    assert badge(fix) == "unsafe, not tried"
    assert badge(replace(fix, verified=True)) == "unsafe, verified"
    assert badge(replace(fix, verified=False)) == "unsafe, tried, does not work"
    assert badge(replace(fix, diff="")) == "unsafe, no patch"
    assert badge(replace(fix, safety="display")) == "by hand"
    assert badge(replace(OPEN, diff="")) == "by hand"


def test_a_patch_that_has_failed_is_no_help() -> None:
    failed = Fix("x", "detach it", "unsafe", ONE_CHANGE, "note", False, {"summary": "the program still fails"})
    lines = told(failed)
    assert "tried: detach it [unsafe, tried, does not work]" in lines
    assert "  = measured: the program still fails" in lines
    assert "`graphdoc fix --list`" in lines[-1] and "--diff" not in lines[-1]
    assert not any(line.startswith("help: ") or line[3:4] in ("+", "-") for line in lines)


def test_measurements_in_words() -> None:
    assert measured({"passes_crash": True, "largest_difference": 1.25e-7, "lost": [], "silent": ["a.w", "a.b"]}) == [
        "passes crash: yes",
        "largest difference: 1.25e-07",
        "silent: a.w, a.b",
    ]
    assert measured({"summary": ["one", "", "two"], "steps": 4}) == ["one", "two"]


def test_a_patch_shows_only_what_changes_and_where_new_lines_go() -> None:
    patch = (
        "--- a/t.py\n+++ b/t.py\n@@ -9,4 +9,5 @@\n def f():\n+    new()\n     a\n     b\n     c\n"
        "@@ -30,3 +31,2 @@\n x\n-y\n z\n"
    )
    assert told(Fix("x", "move", "safe", patch))[8:17] == [
        "help: move [safe, not tried]",
        "   |",
        " 9 | def f():",
        "   +     new()",
        "...",
        "31 - y",
        "   |",
        "   = more: `graphdoc explain GD103`",
        "try it: graphdoc fix --diff",
    ]


def test_version_counters_are_no_part_of_a_short_report() -> None:
    facts = ("h at version 2, 1 expected: +1 by add_() at t.py:1", "the loss was still finite")
    found = Diagnosis("GD203", "inplace-on-saved-activation", "certain", "title", "One. Two.", (), facts)
    lines = render(Report(Run(), "autograd-failure", diagnoses=(found,)), "terminal", width=80).splitlines()
    assert lines[1:3] == ["One. Two.", "  = certain: the loss was still finite"]
    assert "version" not in "".join(lines)


def test_a_long_patch_is_cut() -> None:
    patch = "--- a/t.py\n+++ b/t.py\n@@ -0,0 +1,50 @@\n" + "+x\n" * 50
    lines = told(Fix("x", "write much", "safe", patch))
    assert "... 43 more lines: `graphdoc fix --diff`" in lines
    assert sum(line.endswith("+ x") for line in lines) == 7
    assert len(lines) <= 30


def test_quoted_commands_stay_on_one_line_and_no_line_begins_with_a_workflow_command() -> None:
    assert wrap("say `graphdoc explain GD103` now", 24) == ["say", "`graphdoc explain GD103`", "now"]
    assert wrap("aaaa ::error::x", 10) == ["aaaa", "\\x3a:error::x"]
    assert wrap("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert wrap("模型输入", 4) == ["模型", "输入"]
    assert wrap("  \n ", 10) == [""]


def test_the_width_is_held_between_80_and_160() -> None:
    found = Diagnosis("GD101", "carried-state", "certain", "word " * 60, "")
    report = Report(Run(), "autograd-failure", diagnoses=(found,))
    assert render(report, "terminal", width=10) == render(report, "terminal", width=80)
    assert render(report, "terminal", width=999) == render(report, "terminal", width=160)
