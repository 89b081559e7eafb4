"""``graphdoc explain`` from outside: pages, pasted messages, logs, and what it says when there is nothing to say."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.model import Diagnosis, Fix, Report, Run, Span
from graphdoc.render import render

SECOND = (
    "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call .backward()"
)
TRACEBACK = f"""\
Traceback (most recent call last):
  File "/home/runner/work/demo/src/train.py", line 4, in step
    loss.backward()
  File "/opt/lib/python3.11/site-packages/torch/_tensor.py", line 630, in backward
    torch.autograd.backward(
{SECOND}
"""
OTHER = """\
Traceback (most recent call last):
  File "a.py", line 3, in <module>
    1/0
ZeroDivisionError: x
"""


def explain(*words: str, given: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return graphdoc(cwd, "explain", *words, given=given or "", COLUMNS="100")


@pytest.mark.parametrize("name", ["GD101", "gd101", "carried-state"])
def test_a_page_by_code_or_slug(name: str) -> None:
    done = explain(name)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("# GD101 `carried-state`")
    for heading in (
        "What happened",
        "Why PyTorch refuses",
        "Example",
        "Use instead",
        "Fix safety",
        "When it is not this",
    ):
        assert heading in done.stdout
    assert "\x1b" not in done.stdout


def test_a_page_as_json() -> None:
    page = json.loads(explain("GD101", "--format", "json").stdout)
    assert page["code"] == "GD101" and page["cause"] == "carried-state" and page["example"]


LOADED = """
import sys
from graphdoc.cli.explaining import explain
status = explain(sys.argv[1])
print(status, sorted({"torch", "libcst", "rich", "numpy"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("target", ["GD101", SECOND])
def test_no_torch_and_no_libcst(target: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, target], capture_output=True, text=True)
    assert done.stderr.strip() == "0 []"


PAGE = """
import sys
sys.argv = ["graphdoc", "explain", "GD101"]
from graphdoc.__main__ import main
try:
    main()
except SystemExit as e:
    print(e.code, [m for m in sys.modules if m.startswith(("typer", "graphdoc.program", "graphdoc.remedies"))])
"""


def test_a_page_imports_no_recogniser() -> None:
    done = subprocess.run([sys.executable, "-c", PAGE], capture_output=True, text=True)
    assert done.stdout.startswith("# GD101 ") and done.stdout.endswith("\n0 []\n"), done.stderr


def test_a_pasted_message() -> None:
    done = explain(textwrap.fill(SECOND, 70))
    assert done.returncode == 0 and not done.stderr
    assert "= possible: " in done.stdout or "= likely: " in done.stdout
    assert "graphdoc run SCRIPT" in done.stdout
    assert "certain" not in done.stdout


@pytest.mark.parametrize("how", ["file", "gzip", "stdin", "dash"])
def test_a_log(tmp_path: Path, how: str) -> None:
    text = "".join(f"2024-01-01T00:00:00.1234567Z [rank1]: {line}\n" for line in TRACEBACK.splitlines())
    if how == "file":
        (tmp_path / "job.log").write_text(text)
        done = explain("job.log", cwd=tmp_path)
    elif how == "gzip":
        (tmp_path / "job.log.gz").write_bytes(gzip.compress(text.encode()))
        done = explain("job.log.gz", cwd=tmp_path)
    else:
        done = explain(*(["-"] if how == "dash" else []), given=text)
    assert done.returncode == 0, done.stderr
    assert "rank 1" in done.stdout
    assert "/home/runner/work/demo/src/train.py:4" in done.stdout
    assert "loss.backward()" in done.stdout


REPORT = """error[GD101]: `policy.hidden` and `policy.cell` carry the last iteration's graph into
              this one
This iteration's loss uses `policy.hidden` with its old graph.
  --> train.py:11:5
   |
11 |     state = cell(x, state)
   |     ^^^^^^^^^^^^^^^^^^^^^^ kept here
   |
   = certain: `policy.hidden` was computed before backward #1, which freed its graph, and was never
           detached
try it: graphdoc fix --diff
"""


@pytest.mark.parametrize("before", [TRACEBACK, "epoch 1\n"])
@pytest.mark.parametrize("prefix", ["", "2024-01-01T00:00:00.1234567Z [rank1]: "])
def test_a_report_of_graphdocs_own_is_shown_as_it_stands(before: str, prefix: str) -> None:
    log = "".join(f"{prefix}{line}\n" for line in f"{before}{REPORT}\ndone\n".splitlines())
    done = explain("-", given=log)
    assert done.returncode == 0 and done.stdout.endswith(f"\n{REPORT}") and "possible" not in done.stdout
    report = json.loads(explain("--format", "json", "-", given=log).stdout)
    (told,) = report["diagnoses"]
    assert (told["code"], told["cause"], told["confidence"]) == ("GD101", "carried-state", "certain")
    assert told["title"] == "`policy.hidden` and `policy.cell` carry the last iteration's graph into this one"
    assert told["because"].endswith("and was never detached")
    assert [(s["role"], s["file"], s["line"], s["column"]) for s in told["spans"]] == [("cause", "train.py", 11, 5)]
    assert (report["exception"] is None) == (before is not TRACEBACK)


@pytest.fixture(scope="module")
def told_run() -> Report:
    """A report with a place, a patch and another fix."""
    at = Span("cause", "train.py", 11, 5, 11, 27, "kept here, with 100 % of its graph")
    fixes = tuple(
        Fix(
            f"detach-{n}",
            f"detach `h` after line {n}",
            "unsafe",
            f"--- a/train.py\n+++ b/train.py\n@@ -{n} +{n} @@\n-a\n+b\n",
        )
        for n in (11, 12)
    )
    title = "`policy.hidden`, of last_step, carries the last iteration's graph into this one"
    found = Diagnosis(
        "GD101",
        "carried-state",
        "certain",
        title,
        "It is used: again.",
        (at,),
        fixes=fixes,
        because="it was never detached",
    )
    return Report(
        Run(exit_status=1), "autograd-failure", None, (found,), (), {"train.py": "\n" * 10 + "    s = f(x, s)\n"}
    )


@pytest.mark.parametrize("prefix", ["", "2024-01-01T00:00:00.1234567Z "])
@pytest.mark.parametrize("fmt", ["markdown", "github", "terminal"])
def test_a_pasted_report_is_shown(told_run: Report, fmt: str, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in ["epoch 1", *render(told_run, fmt).splitlines(), "done"])
    shown = explain("-", given=text).stdout
    assert "\nerror[GD101]: `policy.hidden`, of last_step, carries" in shown and "with 100 % of its graph" in shown
    assert "It is used: again." in shown and "detach `h` after line 11" in shown
    assert "%0A" not in shown and "**" not in shown and "\\_" not in shown and "done" not in shown
    report = json.loads(explain("--format", "json", "-", given=text).stdout)
    (told,) = report["diagnoses"]
    assert (told["code"], told["confidence"], told["title"]) == ("GD101", "certain", told_run.diagnoses[0].title)
    assert told["because"] == "it was never detached"
    assert [(s["file"], s["line"], s["column"]) for s in told["spans"]] == [("train.py", 11, 5)]


def test_one_report_in_several_formats_is_shown_once(told_run: Report) -> None:
    shown = explain("-", given="".join(render(told_run, fmt) for fmt in ("github", "terminal", "markdown"))).stdout
    assert shown.count("error[GD101]") == 1


@pytest.mark.parametrize("fmt", ["json", "sarif", "gitlab", "html"])
def test_a_report_for_machines_leads_to_the_page(told_run: Report, fmt: str, tmp_path: Path) -> None:
    (tmp_path / "report").write_text(render(told_run, fmt))
    done = explain("report", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("# GD101 ")
    assert (
        done.stderr == "graphdoc: report is a report of graphdoc's own: it tells GD101, and this is the page of that\n"
    )


def test_an_error_that_no_report_tells_of_is_told_beside_one() -> None:
    done = explain("-", given=f"{TRACEBACK}{REPORT}next job\n{TRACEBACK.replace('train.py', 'other.py')}")
    assert REPORT in done.stdout and "other.py" in done.stdout and "= possible: " in done.stdout


def test_the_json_of_a_log() -> None:
    done = explain("-", "--format", "json", given=TRACEBACK)
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert document["exception"]["type"] == "RuntimeError"
    assert document["diagnoses"] and {d["confidence"] for d in document["diagnoses"]} <= {"likely", "possible"}
    (failure,) = document["failures"]
    assert failure["id"] == "backward-second-time" and failure["family"] == "graph-reuse"
    assert failure["traceback"][0] == {
        "file": "/home/runner/work/demo/src/train.py",
        "line": 4,
        "function": "step",
        "user": True,
    }


def test_the_markdown_of_a_log_holds_no_markup_of_the_log() -> None:
    evil = TRACEBACK.replace("in step", "in [click](http://x) <script>")
    text = explain("-", "--format", "markdown", given=evil).stdout
    assert text.startswith("### `RuntimeError: Trying")
    assert "[click](http" not in text and "<script>" not in text


def test_source_that_is_at_hand_gives_columns(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import torch\n\ndef step(loss):\n    loss.backward()\n")
    document = json.loads(explain("-", "--format", "json", given=TRACEBACK, cwd=tmp_path).stdout)
    spans = [s for d in document["diagnoses"] for s in d["spans"]]
    assert spans and all(s["file"] == "src/train.py" for s in spans)
    assert {(s["line"], s["column"]) for s in spans} == {(4, 5)}


def test_source_that_says_something_else_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import torch\n\ndef step(loss):\n    print(loss)\n")
    done = explain("-", given=TRACEBACK, cwd=tmp_path)
    assert "print(loss)" not in done.stdout and "/home/runner/work/demo/src/train.py:4" in done.stdout


def test_a_message_that_is_no_fault_of_the_graph_says_what_it_means() -> None:
    done = explain(
        "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use "
        "`torch.amp.autocast('cuda', args...)` instead."
    )
    assert done.returncode == 0
    assert "Gradients are not affected" in " ".join(done.stdout.split())
    assert "GD" not in done.stdout


@pytest.mark.parametrize(("code", "status"), [("p.grad.data.zero_()", 0), ("reply.data", 1)])
def test_words_that_any_program_prints_need_a_gradient_near(code: str, status: int) -> None:
    none = "AttributeError: 'NoneType' object has no attribute 'data'"
    text = OTHER.replace("1/0", code).replace("ZeroDivisionError: x", none)
    assert explain("-", given=text).returncode == status


def test_a_harmless_warning_does_not_hide_what_the_log_ends_with() -> None:
    warning = (
        "a.py:1: UserWarning: The verbose parameter is deprecated. Please use get_last_lr() to access the learning"
    )
    done = explain("-", given=f"{warning} rate.\n  f()\n{OTHER}")
    assert done.returncode == 0 and "Gradients are not affected" in done.stdout
    assert "it ends with ZeroDivisionError at a.py:3, which is none of autograd's" in done.stderr
    done = explain("-", given=f"{warning} rate.\n  f()\n{OTHER}\n{TRACEBACK}")
    assert "none of autograd's" not in done.stderr


@pytest.mark.parametrize(
    ("words", "given", "status", "says"),
    [
        (["hello world"], None, 1, "holds no message about autograd"),
        (["-"], "", 1, "standard input holds no message"),
        (
            ["-"],
            OTHER,
            1,
            "it ends with ZeroDivisionError at a.py:3, which is none of autograd's",
        ),
        (["-"], TRACEBACK[:100], 1, "breaks off inside a traceback"),
        (["missing.log"], None, 2, "there is no file missing.log"),
        (["logs/missing"], None, 2, "there is no file logs/missing"),
        (["GD999"], None, 2, "there is no cause GD999; `graphdoc causes` lists them all"),
        (["gd101x"], None, 2, "there is no cause gd101x; did you mean GD101?"),
        (["gd-101"], None, 2, "did you mean GD101?"),
        (["caried-state"], None, 2, "did you mean carried-state?"),
        (["well-known-words"], None, 1, "holds no message about autograd"),
        (["."], None, 2, "is a folder"),
        (["GD101", "--format", "nonsense"], None, 2, "unknown report format"),
    ],
)
def test_one_clear_line_where_there_is_nothing_to_say(
    words: list[str], given: str | None, status: int, says: str
) -> None:
    done = explain(*words, given=given)
    assert done.returncode == status
    assert done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_escapes_of_the_log_do_not_reach_the_terminal() -> None:
    evil = TRACEBACK.replace("in step", "in step\x1b]0;owned\x07").replace(
        "RuntimeError", "\x1b[31mRuntimeError\x1b[2J"
    )
    done = explain("-", given=evil)
    assert done.returncode == 0
    assert not {"\x1b", "\x07"} & set(done.stdout + done.stderr)


def test_workflow_commands_of_the_log_do_not_reach_the_runner() -> None:
    evil = TRACEBACK.replace("(or directly", "::error file=x::owned (or directly").replace(
        "step\n", "step\n::error::x\n"
    )
    done = explain("-", given=evil)
    assert not any(line.lstrip().startswith("::") for line in done.stdout.splitlines())
