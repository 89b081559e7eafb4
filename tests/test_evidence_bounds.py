"""Evidence from elsewhere: of any size and any content it costs one line or one clear error, never minutes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import graphdoc.documents
import graphdoc.evidence
from graphdoc.diagnose import report_for
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence, EvidenceError, Frame, Process, Raised
from graphdoc.launch.keep import open_run
from graphdoc.processes import changed_sources

MESSAGE = "Trying to backward through the graph a second time (or directly access saved tensors after they have"


def written(folder: Path, **changes: Any) -> Path:
    made = Evidence(process=Process(pid=1, rank=0), raised=Raised("RuntimeError", MESSAGE, [Frame("train.py", 3)]))
    document = made.to_json()
    document.update(changes)
    file = folder / "evidence-1.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("ranks", [10**9, 10**18, -5, 4097])
def test_a_number_of_ranks_is_only_a_number(tmp_path: Path, ranks: int) -> None:
    file = written(tmp_path, process={"pid": 1, "rank": 0, "world_size": ranks})
    report = report_for(open_run(file, tmp_path))
    assert report.run.ranks == max(1, ranks)


def test_a_line_number_is_only_a_number(tmp_path: Path) -> None:
    from graphdoc.render import FORMATS, render

    frame = {"file": "train.py", "line": 10**12, "end_line": 10**13, "column": 10**9}
    file = written(tmp_path, raised={"type": "RuntimeError", "message": MESSAGE, "stack": [frame]})
    report = report_for(open_run(file, tmp_path))
    assert all(len(render(report, fmt)) < 100_000 for fmt in FORMATS)


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphdoc.evidence, "MOST_BYTES", 1_000_000)
    (tmp_path / "long.json").write_text("{" + " " * 1_000_000)
    with pytest.raises(UsageError, match="is longer than 1 MB"):
        open_run(tmp_path / "long.json", tmp_path)
    with pytest.raises(UsageError, match="is not a regular file"):
        open_run(Path("/dev/zero"), tmp_path)


def test_lists_and_texts_without_end_are_cut_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphdoc.documents, "MOST_ITEMS", 10)
    monkeypatch.setattr(graphdoc.documents, "MOST_TEXT", 100)
    evidence = Evidence.read(str(written(tmp_path, reaches=["w"] * 11, hashes={str(n): "" for n in range(12)})))
    assert len(evidence.reaches) == 10 and len(evidence.hashes) == 10
    assert evidence.degraded == ["the evidence is longer than any that graphdoc writes: 2 parts of it were cut"]


def test_reading_asks_each_annotation_once(tmp_path: Path) -> None:
    """Reading took a second for each megabyte, most of it spent on the annotations of every single value."""
    frames = [{"file": "train.py", "line": n} for n in range(20)]
    file = written(tmp_path, nodes=[{"id": n, "op": "Mul", "stack": frames} for n in range(2000)])
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith("typing.py")

    Evidence.read(str(file))
    sys.setprofile(count)
    try:
        assert len(Evidence.read(str(file)).nodes) == 2000
    finally:
        sys.setprofile(None)
    assert calls < 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        "\xff\xfe",
        '{"version": 1, "process": []}',
        '{"version": 1, "process": {"pid": "x"}}',
        '{"version": 1, "process": {"pid": 1}, "seconds": 1' + "0" * 400 + "}",
        '{"version": 1, "process": {}, "nodes": [{}]}',
        '{"version": 1, "process": {}, "pid": ' + "9" * 5000 + "}",
        '{"version": 3, "process": {}}',
        '{"version": 0, "process": {}}',
        '{"version": [], "process": {}}',
    ],
)
def test_what_is_no_evidence_is_one_clear_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(EvidenceError) as caught:
        Evidence.read(str(file))
    assert "\n" not in str(caught.value) and str(file) in str(caught.value) and len(str(caught.value)) < 500


def test_a_document_of_the_former_version_is_read_by_its_own_names(tmp_path: Path) -> None:
    edge = {"consumer": 0, "producer": 1, "tensor": {"name": "hidden"}, "behind": ["cell.weight"]}
    file = tmp_path / "evidence.json"
    file.write_text(
        json.dumps(
            {"version": 1, "process": {}, "carries": [edge], "siblings": [edge], "lingering": [{"name": "memory"}]}
        )
    )
    read = Evidence.read(str(file))
    assert [e.behind for e in (*read.older_edges, *read.earlier_edges)] == [["cell.weight"]] * 2
    assert [t.name for t in read.held_tensors] == ["memory"]
    read.write(str(file))
    assert Evidence.read(str(file)) == read and json.loads(file.read_text())["version"] == 2


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_a_source_that_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    name = {"device": "/dev/zero", "pipe": str(tmp_path / "pipe"), "folder": str(tmp_path)}[kind]
    if kind == "pipe":
        os.mkfifo(name)
    evidence = Evidence(process=Process(cwd=str(tmp_path)), hashes={name: "0" * 64})
    assert changed_sources(evidence) == [name]
