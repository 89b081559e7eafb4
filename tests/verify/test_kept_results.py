"""What trials have found is kept with the run, for its user alone, and only where there is a run."""

from __future__ import annotations

from pathlib import Path

from graphdoc.verify.compared import Results, Verdict


def test_a_verdict_is_kept_for_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "run.json").touch()
    strangers = tmp_path / "strangers"
    strangers.write_text("theirs")
    results = Results(tmp_path)
    results.keep("first", Verdict(True, "it holds", {"steps": 3}), 10.0)
    (results.folder / "second.json").symlink_to(strangers)
    results.keep("second", Verdict(False, "it fails", {}), 10.0)
    assert results.get("first", 99.0) == Verdict(True, "it holds", {"steps": 3})
    assert strangers.read_text() == "theirs"
    assert [file.stat().st_mode & 0o777 for file in (results.folder, *sorted(results.folder.iterdir()))] == [
        *(0o700, 0o600, 0o600)
    ]


def test_beside_evidence_from_elsewhere_nothing_is_written(tmp_path: Path) -> None:
    Results(tmp_path).keep("first", Verdict(True, "it holds", {}), 10.0)
    assert list(tmp_path.iterdir()) == []
