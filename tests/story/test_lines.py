"""Lines and capitals in sentences: by one rule, in one place."""

from __future__ import annotations

import pytest

from graphdoc.story.wording import as_called, begins_small, in_lines


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("computed at train.py:13", "computed at line 13"),
        ("began at train.py:9: it is nan", "began at line 9: it is nan"),
        ("move train.py:11, 12, 13 into it", "move lines 11, 12 and 13 into it"),
        ("changed at train.py:14, train.py:13", "changed at lines 14 and 13"),
        ("at train.py:14, 12 of 20 elements are nan", "at line 14, 12 of 20 elements are nan"),
        ("It ends. train.py:3 writes", "It ends. Line 3 writes"),
        ("train.py:3 writes", "Line 3 writes"),
        ("at train.py:3:5", "at train.py:3:5"),
        ("at lib/train.py:3 and pretrain.py:4", "at lib/train.py:3 and pretrain.py:4"),
        ("`train.py:3`", "`train.py:3`"),
    ],
)
def test_a_program_of_one_file(text: str, told: str) -> None:
    assert in_lines(text, ["src/train.py"], sentence=True) == told
    assert in_lines(text, ["src/train.py", "model.py"]) == text


def test_a_title_begins_small_unless_a_name_begins_it() -> None:
    small = {"The gradients": "the gradients", "A loss": "a loss", "Keep it": "keep it"}
    kept = ("NumPy gets it", "`x` is", "PyTorch refuses", "Adam.step() writes", "GradScaler")
    assert {title: begins_small(title) for title in [*small, *kept]} == small | {title: title for title in kept}


def test_functions_have_parentheses_attributes_a_dot_and_operators_are_as_written() -> None:
    assert [as_called(n) for n in ("item", "torch.cdist", "data", ">", "__gt__")] == [
        "`item()`",
        "`torch.cdist()`",
        "`.data`",
        "`>`",
        "`>`",
    ]
