"""One JSON object from anybody's file: read whole, or one line on why not, the same whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.documents import Unreadable, read_object
from graphdoc.errors import UsageError
from graphdoc.evidence import EvidenceError, load
from graphdoc.launch.folders import PLACE
from graphdoc.launch.keep import last_run

WRONG = {
    "": "is not what graphdoc writes: nothing is in it",
    "import torch\n": "is not what graphdoc writes: no JSON",
    '{"a": ': "is truncated or damaged",
    "[" * 100_000: "is truncated or damaged",
    "\xff": "is not what graphdoc writes: no JSON",
    "[]": "is damaged: not a JSON object",
    "null": "is damaged: not a JSON object",
    " " * 4_000_001: "is longer than 4 MB",
}


@pytest.mark.parametrize(("text", "why"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_wrong_is_one_line_with_the_files_name(tmp_path: Path, text: str, why: str) -> None:
    place = tmp_path / PLACE
    place.mkdir()
    file = place / "last.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(Unreadable) as caught:
        read_object(file, 4_000_000)
    told = str(caught.value)
    assert why in told and str(file) in told and "\n" not in told
    with pytest.raises(UsageError) as usage:
        last_run(tmp_path)
    assert str(usage.value) == told
    if "longer" not in why:  # evidence may be longer
        with pytest.raises(EvidenceError) as evidence:
            load(str(file))
        assert str(evidence.value) == told


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"cannot read .*none\.json: No such file"):
        read_object(tmp_path / "none.json", 10)


def test_an_object_is_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1]}')
    assert read_object(tmp_path / "a.json", 10) == {"a": [1]}
