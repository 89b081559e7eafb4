"""The programs in fixtures/ compute bit for bit the same under observation."""

from __future__ import annotations

from pathlib import Path

import pytest
from observed import run

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

STATE = """
import atexit as _atexit, random as _random
_random.seed(0)  # a fork seeds it anew
def _digest():
    import gc, hashlib, random
    import numpy
    parts = [hashlib.sha256(o.detach().numpy().tobytes()).hexdigest()
             for o in gc.get_objects() if type(o) is torch.nn.Parameter]
    state = repr((random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()))
    print(hashlib.sha256(repr((sorted(parts), state)).encode()).hexdigest(), len(parts))
_atexit.register(_digest)
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/train.py")), ids=lambda p: p.parent.name)
def test_the_same_numbers(path: Path, tmp_path: Path) -> None:
    for other in path.parent.glob("*.py"):
        (tmp_path / other.name).write_text(other.read_text(encoding="utf-8"), encoding="utf-8")
    copy = tmp_path / "train.py"
    text = path.read_text(encoding="utf-8")
    copy.write_text(text.replace("import torch\n", "import torch\n" + STATE, 1), encoding="utf-8")
    plain, seen = [run(copy, mode=mode) for mode in ("", "observe")]
    assert plain.result.stdout.split()[-1].isdigit()
    assert seen.result == plain.result
    assert not seen.troubles
