"""What each machine format promises to its readers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from markdown_it import MarkdownIt
from pages import page
from sample_reports import FILES, NASTY, PPO, QUIET, REPORTS, SOURCELESS

from graphdoc import causes
from graphdoc.causes.base import Cause
from graphdoc.model import Diagnosis, Fix, Report, Run, Span
from graphdoc.render import FORMATS, is_report, render

PLACE_AT = {"type": "object", "required": ["line"], "properties": {"line": {"type": "integer", "minimum": 1}}}
LINES = {"required": ["lines"], "properties": {"lines": {"required": ["begin"]}}}
POSITIONS = {"required": ["positions"], "properties": {"positions": {"required": ["begin"]}}}
GITLAB = {
    # "Code Quality report format" in GitLab's documentation: what each entry must have, and in which words.
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path"],
                "oneOf": [LINES, POSITIONS],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./|/)."},
                    "lines": {"properties": {"begin": {"type": "integer", "minimum": 1}}},
                    "positions": {"properties": {"begin": PLACE_AT, "end": PLACE_AT}},
                },
            },
        },
    },
}
SCHEMA = json.loads((Path(__file__).parent / "sarif_schema.json").read_text())


def diagnosis(number: int = 1, **changes: object) -> Diagnosis:
    span = Span("cause", "train.py", number, 1, number, 5, "here")
    made = Diagnosis(f"GD10{number % 10}", "carried-state", "certain", f"title {number}", "why", (span,))
    return replace(made, **changes)  # type: ignore[arg-type]


def report(*diagnoses: Diagnosis, **changes: object) -> Report:
    made = Report(Run(("train.py",)), "autograd-failure", diagnoses=diagnoses)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_formats() -> None:
    assert FORMATS == ("github", "gitlab", "html", "json", "markdown", "sarif", "svg", "terminal")


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_known_for_one(name: str) -> None:
    assert all(is_report(render(REPORTS[name], fmt)) for fmt in FORMATS)


def test_what_others_have_written_is_not() -> None:
    others = ["# error GD101: x", "import torch", '{"runs": []}', "[1]", "<!doctype html>\n<title>a</title>", "- note"]
    assert not [text for text in others if is_report(text)]
    assert not is_report(Path(__file__).read_text())


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there is no format 'xml'; the formats are github, gitlab, html, json"):
        render(QUIET, "xml")


def test_plain_text_needs_neither_rich_nor_torch_nor_libcst() -> None:
    code = (
        "import sys; from sample_reports import PPO; from graphdoc.render import render, FORMATS\n"
        "for fmt in FORMATS: assert 'GD103' in render(PPO, fmt) or fmt == 'json'\n"
        "print([m for m in ('rich', 'torch', 'libcst', 'typer') if m in sys.modules])"
    )
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("fmt", ["terminal", "github", "markdown"])
def test_nothing_is_said_of_a_quiet_run(fmt: str) -> None:
    assert render(QUIET, fmt) == ""


def test_only_the_notes_are_left_without_a_diagnosis() -> None:
    noted = replace(QUIET, notes=("the run was killed by signal 9",))
    assert render(noted, "terminal") == "note: the run was killed by signal 9\n"
    assert render(noted, "markdown") == "- the run was killed by signal 9\n"
    assert render(noted, "github") == ""


# json


@pytest.mark.parametrize("name", REPORTS)
def test_json_is_the_contract(name: str) -> None:
    text = render(REPORTS[name], "json")
    assert json.loads(text) == json.loads(json.dumps(REPORTS[name].to_json()))
    assert text.endswith("}\n") and text.isascii()
    assert text.startswith('{\n  "schema_version": 1,\n  "run": {\n    "command": [')


def test_json_stays_json_whatever_was_measured() -> None:
    odd: dict[Any, Any] = {"difference": float("nan"), "ratio": float("inf"), "where": Path("x"), "steps": (1, 2)}
    odd[3] = None
    told = report(diagnosis(fixes=(Fix("f", "t", "safe", verification=odd),)))
    loaded = json.loads(render(told, "json"), parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))
    assert loaded["diagnoses"][0]["fixes"][0]["verification"] == {
        "difference": "nan",
        "ratio": "inf",
        "where": "x",
        "steps": [1, 2],
        "3": None,
    }


# github


def test_github_gives_columns_only_within_one_line() -> None:
    one = render(report(diagnosis()), "github")
    assert "file=train.py,line=1,endLine=1,col=1,endColumn=5::" in one
    several = render(report(diagnosis(spans=(Span("cause", "train.py", 3, 5, 4, 2),))), "github")
    assert "file=train.py,line=3,endLine=4::" in several


def test_github_says_a_line_once_where_two_places_on_it_have_the_same_label() -> None:
    spans = tuple(Span("cause", "train.py", 3, c, 3, c + 1, "kept here") for c in (1, 4))
    text = render(report(diagnosis(spans=spans)), "github")
    assert text.count("train.py:3: kept here") == 1
    other = (*spans, Span("failed", "train.py", 3, 7, 3, 8, "needed here"))
    assert "train.py:3: needed here" in render(report(diagnosis(spans=other)), "github")


def test_that_it_failed_at_the_very_place_to_change_is_not_said_below_it() -> None:
    cause = Span("cause", "train.py", 3, 1, 3, 9, "takes tensors only")
    same, timed = (replace(cause, role="failed", label="refused here", when=when) for when in (None, (1, 0)))
    assert "refused here" not in render(report(diagnosis(spans=(cause, same))), "github")
    assert "refused here" in render(report(diagnosis(spans=(cause, timed))), "github")


def test_github_keeps_one_line_for_each_diagnosis_and_ten_at_most() -> None:
    lines = render(report(*(diagnosis(n) for n in range(1, 15))), "github").splitlines()
    assert len(lines) == 10
    assert [line.split(",")[0] for line in lines[:2]] == ["::error title=GD101 title 1", "::error title=GD102 title 2"]


def test_github_escapes_what_would_end_a_property_or_a_message() -> None:
    (line,) = render(NASTY, "github").splitlines()
    properties, message = line.removeprefix("::warning ").split("::", 1)
    assert "100%25 of <b>loss</b> %3A%3Aerror%3A%3Atitle%2C `a|b`" in properties
    assert "file=na sty%2C100%25%3A\\x1b[31m.py," in properties
    assert "\x1b" not in line and "%0A" in message and "certain: fact\\x9b31m with newline" in message


def test_github_names_a_place_from_the_root_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path / "sub")
    assert "file=sub/train.py," in render(report(diagnosis()), "github")
    inside = Span("cause", str(tmp_path / "lib" / "x.py"), 1, 1, 1, 2)
    assert "file=lib/x.py," in render(report(diagnosis(spans=(inside,))), "github")
    outside = Span("cause", "/usr/lib/x.py", 1, 1, 1, 2)
    assert "file=/usr/lib/x.py," in render(report(diagnosis(spans=(outside,))), "github")


def test_github_without_a_place() -> None:
    assert render(report(diagnosis(spans=())), "github").startswith("::error title=GD101 title 1::why.%0Acertain: ")


def test_what_did_not_end_the_run_is_a_warning() -> None:
    silent = report(diagnosis(), outcome="completed")
    assert render(silent, "github").startswith("::warning ")
    assert render(silent, "terminal").startswith("warning[GD101]: ")
    assert json.loads(render(silent, "sarif"))["runs"][0]["results"][0]["level"] == "warning"
    assert json.loads(render(silent, "gitlab"))[0]["severity"] == "major"


# gitlab


def test_gitlab_entries() -> None:
    first, second = json.loads(render(FILES, "gitlab"))
    assert first["description"].startswith("GD203: `y += self.bias` overwrites")
    assert first["check_name"] == "inplace-on-saved-activation"
    assert first["severity"] == "major" and second["severity"] == "minor"
    assert first["location"] == {
        "path": "src/model.py",
        "positions": {"begin": {"line": 8, "column": 31}, "end": {"line": 8, "column": 45}},
    }


def test_fingerprints_differ_within_a_report_and_outlive_a_line_added_above() -> None:
    twice = json.loads(render(report(diagnosis(), diagnosis()), "gitlab"))
    assert len({entry["fingerprint"] for entry in twice}) == 2
    before = report(diagnosis(2), sources={"train.py": "a\nb = c\n"})
    after = report(diagnosis(3, code="GD102"), sources={"train.py": "a\nnew\nb = c\n"})
    assert (
        json.loads(render(before, "gitlab"))[0]["fingerprint"] == json.loads(render(after, "gitlab"))[0]["fingerprint"]
    )


def test_gitlab_without_a_place_names_the_script() -> None:
    (entry,) = json.loads(render(report(diagnosis(spans=())), "gitlab"))
    assert entry["location"] == {"path": "train.py", "lines": {"begin": 1}}
    assert json.loads(render(QUIET, "gitlab")) == []


def test_gitlab_without_a_place_in_the_repository_names_the_script() -> None:
    (entry,) = json.loads(render(report(diagnosis(spans=(Span("cause", "/usr/lib/x.py", 4, 1, 4, 2),))), "gitlab"))
    assert entry["location"] == {"path": "train.py", "lines": {"begin": 1}}


@pytest.mark.parametrize("told", [*REPORTS.values(), QUIET, report(diagnosis(spans=()), diagnosis(spans=()))])
def test_gitlab_is_as_documented(told: Report) -> None:
    entries = json.loads(render(told, "gitlab"))
    jsonschema.validate(entries, GITLAB)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)


# sarif


@pytest.mark.parametrize("told", [*REPORTS.values(), QUIET, report(diagnosis(spans=(), facts=("f",)), notes=("n",))])
def test_sarif_is_valid(told: Report) -> None:
    jsonschema.validate(json.loads(render(told, "sarif")), SCHEMA)


@pytest.mark.slow
def test_sarif_stays_below_what_the_upload_takes() -> None:
    """What GitHub keeps and shows, well below what it refuses: see its page "SARIF results exceed one or more limits",
    and 10 MB packed ("SARIF results file is too large").
    """
    spans = tuple(Span("created", "train.py", n, 1, n, 9, f"place {n} " * 20) for n in range(1, 3000))
    # A tenth of what is kept is of the usual length: that much must fit ten times.
    told = [diagnosis(n, spans=spans[:9] if n < 500 else spans[:1]) for n in range(6000)]
    told[0] = diagnosis(spans=(Span("cause", "train.py", 1, 1, 1, 2), *spans))
    text = render(report(*told), "sarif")
    (run,) = json.loads(text)["runs"]
    assert len(run["results"]) == 5000 and len(run["tool"]["driver"]["rules"]) == 10
    for result in run["results"]:
        assert len(result["locations"]) <= 100 and len(result["relatedLocations"]) <= 100
        flows = [t for flow in result.get("codeFlows", []) for t in flow["threadFlows"]]
        assert sum(len(t["locations"]) for t in flows) <= 1000
    assert all(len(rule["properties"]["tags"]) <= 10 for rule in run["tool"]["driver"]["rules"])
    assert len(gzip.compress(json.dumps(run["results"][:500]).encode())) < 1_000_000


def test_sarif_tells_the_story_in_order_with_the_cause_as_its_location() -> None:
    (result,) = json.loads(render(PPO, "sarif"))["runs"][0]["results"]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["physicalLocation"]["region"]["startLine"] for s in steps] == [18, 19, 21, 24, 28]
    assert [s["importance"] for s in steps].index("essential") == 1
    assert result["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 19,
        "startColumn": 25,
        "endLine": 19,
        "endColumn": 30,
    }
    assert len(result["relatedLocations"]) == 4
    # The other one has failed when it was tried, and is not offered.
    assert [fix["description"]["text"] for fix in result["fixes"]] == [
        "detach the advantage [unsafe, verified]",
        "bound the advantage [to fill in]; fill in `MOST`: the largest advantage that counts, `0.5` say",
    ]
    assert [list(fix.get("properties", {}).get("placeholders", ())) for fix in result["fixes"]] == [[], ["MOST"]]


def test_sarif_encodes_paths() -> None:
    uris = [
        loc["physicalLocation"]["artifactLocation"]
        for loc in json.loads(render(SOURCELESS, "sarif"))["runs"][0]["results"][0]["relatedLocations"]
    ]
    assert {"uri": "file:///opt/lib/rnn.py"} in uris
    assert "na%20sty%2C100%25%3A%1B%5B31m.py" in render(NASTY, "sarif")


PAGE = page(
    code="GD101", title="a state is carried", what_happened="It broke. " * 200, example="x = 1", use_instead="x = 2"
)


def test_a_sarif_rule_is_the_causes_page(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = Cause("carried-state", PAGE, lambda evidence: None)
    monkeypatch.setattr(causes, "find", {"GD101": cause}.get)
    document = json.loads(render(report(diagnosis(), diagnosis(), diagnosis(2)), "sarif"))
    jsonschema.validate(document, SCHEMA)
    first, second = document["runs"][0]["tool"]["driver"]["rules"]
    assert first["name"] == "CarriedState" and first["shortDescription"]["text"] == "a state is carried"
    assert len(first["fullDescription"]["text"]) <= 1024
    assert "Use instead:\n\n```python\nx = 2\n```" in first["help"]["markdown"]
    assert second["id"] == "GD102" and second["help"]["text"] == "why"
    assert [r["ruleIndex"] for r in document["runs"][0]["results"]] == [0, 0, 1]


def test_every_cause_of_the_catalogue_is_a_valid_rule() -> None:
    told = [diagnosis(code=cause.code, cause=cause.slug) for cause in causes.all_causes()]
    jsonschema.validate(json.loads(render(report(*told), "sarif")), SCHEMA)


# markdown and html


@pytest.mark.parametrize("name", REPORTS)
def test_markdown_is_read_as_it_was_meant(name: str) -> None:
    """By a parser of CommonMark with tables and strikethrough: headings, code and text, nothing of the program's."""
    told = REPORTS[name]
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(render(told, "markdown"))
    assert [t.tag for t in tokens if t.type == "heading_open"] == ["h3"] * len(told.diagnoses)
    patches = [fix.diff for d in told.diagnoses for fix in d.fixes if fix.diff and fix.verified is not False]
    fences = [t for t in tokens if t.type == "fence"]
    assert {t.info for t in fences} <= {"text", "diff"}
    assert sum(t.info == "diff" for t in fences) == len(patches)
    html = {t.content.strip() for t in tokens if t.type == "html_block"}
    assert html <= {"<details><summary>Other fixes</summary>", "</details>"}
    inside = {t.type for token in tokens for t in token.children or ()}
    assert inside <= {"text", "code_inline", "strong_open", "strong_close", "softbreak", "text_special"}
    assert not any(t.type == "table_open" for t in tokens)


def test_markdown_cannot_be_broken_out_of() -> None:
    text = render(NASTY, "markdown")
    outside = [part for i, part in enumerate(text.split("\n```")) if i % 2 == 0]
    assert not any("<script" in part.replace("\\<", "") or "<img" in part.replace("\\<", "") for part in outside)
    assert "````diff\n" in text and "\x1b" not in text
    assert "\\_x\\_ and \\[link\\](http://x)" in text


def test_html_is_one_page_without_script_or_anything_to_load() -> None:
    page = render(NASTY, "html")
    assert "<script" not in page and "<img" not in page and "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "&lt;b&gt;loss&lt;/b&gt;" in page
    assert "src=" not in page.replace("img src=x", "") and "@import" not in page and "url(" not in page
    assert "Nothing is wrong with the graph of this run." in render(QUIET, "html")
