"""``torch.set_default_device`` is a mode that stays on for the whole run, and hides nothing from the watches."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import FOLDER
from seen import observe

HEAD = 'import torch; torch.set_default_device("cpu")\n'


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "name",
    [
        "stale-parameter-unseen/last-layer-clamped-behind-the-forward",
        "stale-parameter-unseen/critic-clipped-behind-its-forward",
        "nan-log-of-zero/empty-bin-of-a-histogram",
    ],
)
def test_the_same_is_told_under_a_default_device(name: str, tmp_path: Path) -> None:
    code = (FOLDER / f"{name}.py").read_text()
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[:1] == [name.partition("/")[0]]
