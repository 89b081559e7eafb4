"""A diff taken apart, and put together again by those who read the SARIF."""

from __future__ import annotations

import difflib
import json

from hypothesis import given
from hypothesis import strategies as st

from graphdoc.line_changes import parse
from graphdoc.model import Diagnosis, Fix, Report, Run
from graphdoc.render import render


def apply(text: str, diff: str) -> str:
    """What an editor does with the replacements of the SARIF log: from the last to the first."""
    found = Diagnosis("GD101", "carried-state", "certain", "t", "e", fixes=(Fix("f", "f", "safe", diff),))
    result = json.loads(render(Report(Run(), "autograd-failure", diagnoses=(found,)), "sarif"))["runs"][0]["results"][0]
    if "fixes" not in result:
        return text
    starts = [0]
    for line in text.splitlines(True):
        starts.append(starts[-1] + len(line))
    (change,) = result["fixes"][0]["artifactChanges"]
    for replacement in reversed(change["replacements"]):
        region = replacement["deletedRegion"]
        begin = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:begin] + replacement["insertedContent"]["text"] + text[end:]
    return text


def unified(old: str, new: str, context: int) -> str:
    """As git writes it, with its word on a missing newline."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/f.py", "b/f.py", n=context)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


lines = st.lists(st.sampled_from(["a", "b", "", "-- x", "++ y", "    z"]), max_size=9)


@given(lines, lines, st.sampled_from(["\n", "\r\n"]), st.integers(1, 3), st.booleans(), st.booleans())
def test_replacements_do_what_the_diff_does(
    old: list[str], new: list[str], eol: str, context: int, old_newline: bool, new_newline: bool
) -> None:
    before = eol.join(old) + (eol if old and old_newline else "")
    after = eol.join(new) + (eol if new and new_newline else "")
    assert apply(before, unified(before, after, context)) == after


def test_headers() -> None:
    body = "@@ -1 +1 @@ def f():\n-a\n+b\n"
    assert [f.path for f in parse(f"diff --git a/x b/x\nindex 1..2\n--- a/x.py\t2026\n+++ b/x.py\t2026\n{body}")] == [
        "x.py"
    ]
    assert [f.path for f in parse(f"--- /dev/null\n+++ b/new.py\n{body}")] == ["new.py"]
    assert [f.path for f in parse(f"--- a/old.py\n+++ /dev/null\n{body}")] == ["old.py"]
    assert [f.path for f in parse(f'--- "a/\\303\\251 \\"q.py"\n+++ "b/\\303\\251 \\"q.py"\n{body}')] == ['é "q.py']
    assert [f.path for f in parse(f"--- a/x\n+++ b/x\n{body}--- a/y\n+++ b/y\n{body}")] == ["x", "y"]


def test_what_is_no_diff_gives_nothing() -> None:
    assert parse("") == parse("hello\n@@ -1 +1 @@\n-a\n") == parse("--- a/x\n+++ b/x\n") == []


@given(st.text(alphabet="-+@ \\\n0123ab/", max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    parse(text)
    parse("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n" + text)
