"""Who asks for more to be measured is told of the same fault first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from examples import examples
from told_in_forks import run

FIRST = ("parameters-never-reached", "codebook-behind-the-estimator")
OTHERS = ("clipping-without-effect", "cut-by-detach", "cut-by-no-grad", "frozen-parameters", "steps-without-gradient")
SICK = [pytest.param(*FIRST, id=FIRST[0]), *(pytest.param(s, "", marks=pytest.mark.slow, id=s) for s in OTHERS)]


@pytest.mark.parametrize(("slug", "name"), SICK)
def test_the_first_cause_stays(tmp_path: Path, slug: str, name: str) -> None:
    silent = [e for e in examples(slug) if e.line and not e.fails and name in e.name]
    causes = []
    for mode in ("observe", "observe:check-gradients"):
        folder = tmp_path / mode.replace(":", "-")
        folder.mkdir()
        (folder / "train.py").write_text(min(silent, key=lambda e: len(e.code)).code)
        causes.append(run(folder, mode=mode).report.diagnoses[0].cause)
    assert causes == [slug, slug]
