"""The published schemas: every golden report is what docs/schemas says, and names nothing that it does not describe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from commands import graphdoc

from graphdoc import model
from graphdoc.address import pages_of
from graphdoc.cli.arguments import _CHOICES, _KINDS

ROOT = Path(__file__).resolve().parents[1]
REPORTS = sorted((ROOT / "tests/golden/reports").rglob("*.json"))


def schema(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "docs/schemas" / name).read_text())


def closed(part: Any) -> Any:
    """The schema with every object that it describes closed: what it does not name is refused."""
    if isinstance(part, list):
        return [closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    shut = {key: closed(value) for key, value in part.items()}
    return {**shut, "additionalProperties": False} if "properties" in shut and "type" in shut else shut


@pytest.mark.parametrize("name", ["report.json", "settings.json"])
def test_it_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_golden_reports_are_what_the_schema_says() -> None:
    judge = jsonschema.Draft202012Validator(closed(schema("report.json")))
    wrong = []
    for path in REPORTS:
        report = json.loads(path.read_text())
        report["run"] |= {"python": "3.11.7", "torch": "2.13.0", "seconds": 1.5}  # golden files leave out what changes
        wrong += [f"{path.parent.name}/{path.name}: {e.message}" for e in judge.iter_errors(report)]
    assert len(REPORTS) > 400 and not wrong


def test_a_tried_fix_and_a_run_that_never_saw_torch_are_too(tmp_path: Path) -> None:
    judge = jsonschema.Draft202012Validator(closed(schema("report.json")))
    tried = model.Fix(
        "detach", "detach it", "unsafe", "--- a/x\n+++ b/x\n", "", True, {"summary": "ran"}, str(tmp_path)
    )
    diagnosis = model.Diagnosis("GD101", "carried-state", "certain", "title", "why", fixes=(tried,))
    judge.validate(model.Report(model.Run(), "completed", diagnoses=(diagnosis,)).to_json())
    (tmp_path / "plain.py").write_text("print(1)\n")
    graphdoc(tmp_path, "run", "--report", "json:report.json", "plain.py")
    judge.validate(json.loads((tmp_path / "report.json").read_text()))


def test_the_words_of_the_schema_are_those_of_the_model() -> None:
    told = schema("report.json")
    assert told["properties"]["outcome"]["enum"] == list(get_args(model.Outcome))
    parts = told["$defs"]
    assert parts["diagnosis"]["properties"]["confidence"]["enum"] == list(get_args(model.Confidence))
    assert parts["span"]["properties"]["role"]["enum"] == list(get_args(model.Role))
    assert parts["fix"]["properties"]["safety"]["enum"] == list(get_args(model.Safety))


def test_settings_are_those_of_the_schema() -> None:
    told = schema("settings.json")["properties"]
    assert set(told) == set(_KINDS)
    assert {name: tuple(one["enum"]) for name, one in told.items() if "enum" in one} == _CHOICES
    page = (ROOT / "docs/settings.md").read_text()
    example = tomllib.loads(page.split("```toml")[1].split("```")[0])["tool"]["graphdoc"]
    jsonschema.validate(example, schema("settings.json"))
    assert set(example) == set(told)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"nan": "sometimes"}, schema("settings.json"))


def test_the_address_of_a_page_is_that_of_the_installed_commit(tmp_path: Path) -> None:
    origin = {"url": "https://host.example/team/graphdoc.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}
    assert pages_of(json.dumps(origin)) == "https://host.example/team/graphdoc/blob/abc123/docs/causes/{code}.md"
    assert not pages_of('{"url": "file:///home/someone/graphdoc", "dir_info": {"editable": true}}')
    secret = {**origin, "url": "https://name:token@host.example/team/graphdoc.git"}
    assert not pages_of(json.dumps(secret))
    assert not pages_of("{}") and not pages_of("not JSON") and not pages_of("[]")
    installed = tmp_path / "torch_graphdoc-9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-graphdoc\nVersion: 9\n")
    (installed / "direct_url.json").write_text(json.dumps(origin))
    code = """
from graphdoc.model import Diagnosis, Report, Run
from graphdoc.render import render
report = Report(Run(), "completed", diagnoses=(Diagnosis("GD101", "carried-state", "certain", "title", "why"),))
print(render(report, "json"), render(report, "sarif"))
"""
    words = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120, env=env).stdout
    address = "https://host.example/team/graphdoc/blob/abc123/docs/causes/GD101.md"
    assert f'"page": "{address}"' in said and f'"helpUri": "{address}"' in said
    assert (ROOT / "docs/causes/GD101.md").exists()
