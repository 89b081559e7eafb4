"""A number that is printed goes into no loss."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.values_taken_out import goes_nowhere_else, is_only_printed


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("print(i, loss.item())", True),
        ("writer.add_scalar('loss', loss.item(), i)", True),
        ("losses.append(loss.item())", False),
        ("total = print(loss.item())", False),
        ("show(loss.item())", False),
    ],
)
def test_what_only_prints_is_told_from_what_keeps(line: str, printed: bool) -> None:
    start = line.index("loss.item()") + 1
    assert is_only_printed({"train.py": line + "\n"}, Frame("train.py", 1, start, 1, start + 11)) is printed


@pytest.mark.parametrize(
    ("text", "nowhere"),
    [
        ("print('out', np.mean(out.numpy()).round(2), f'{out.numpy().max()}')", True),
        ("print(out[0].numpy().round(2), len(x))", True),
        ("print(np.mean(losses).round())", True),
        ("print(kept.append(out.numpy()))", False),
        ("print(np.add(out.numpy(), 1, out=kept))", False),
        ("print(np.copyto(kept, out.numpy()))", False),
        ("shown = print(out.numpy())", False),
        ("print(*[kept for kept in out.numpy()])", False),
        ("print(record(out.numpy()))", False),
        ("print(seen := out.numpy())", False),
        ("logger.info(out.numpy())", False),
        ("print = collect\nprint(out.numpy())", False),
        ("from rich import print\nprint(out.numpy())", False),
    ],
)
def test_what_is_printed_and_goes_nowhere_else(text: str, nowhere: bool) -> None:
    line = text.splitlines()[-1]
    place = next(p for p in ("out[0].numpy()", "out.numpy()", "np.mean(losses)") if p in line)
    start, number = line.index(place) + 1, len(text.splitlines())
    frame = Frame("train.py", number, start, number, start + len(place))
    assert goes_nowhere_else({"train.py": text + "\n"}, frame) is nowhere
