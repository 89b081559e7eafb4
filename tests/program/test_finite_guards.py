"""Which steps are left out where something is not finite."""

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.scaler_calls import is_guarded

LOOP = """\
for number, x in enumerate(batches):
    model(x).sum().backward()
    norm = clip(model)
    {guard}
        opt.step()
"""


@pytest.mark.parametrize(
    ("guard", "guarded"),
    [
        ("if torch.isfinite(norm):", True),
        ("if not (norm.isnan() or norm.isinf()):", True),
        ("if number % 4 == 3:", False),
        ("if number % 4 == 3 and norm < 5:", False),
        ("with timer:", False),
    ],
)
def test_only_a_look_at_finite_numbers_is_one(guard: str, guarded: bool) -> None:
    assert is_guarded({"train.py": LOOP.format(guard=guard)}, Frame("train.py", 5), Frame("train.py", 2)) is guarded


def test_steps_that_collect_are_none() -> None:
    text = "for n in range(9):\n    f(n).backward()\n    if n % 4:\n        if isfinite(g):\n            opt.step()\n"
    assert not is_guarded({"train.py": text}, Frame("train.py", 5), Frame("train.py", 2))


def test_a_guard_around_both_is_none() -> None:
    text = "for x in batches:\n    if isfinite(x):\n        f(x).backward()\n        opt.step()\n"
    assert not is_guarded({"train.py": text}, Frame("train.py", 4), Frame("train.py", 3))
