"""Which of PyTorch's own warnings about missing gradients the program was shown: facts that no object keeps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from graphdoc.capture.code_places import shown_file
from graphdoc.capture.inserted_calls import CannotInsert, insert_calls

KNOWN = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
    "populated during autograd.backward().",
    "None of the inputs have requires_grad=True. Gradients will be None",
)
"""How they begin (TensorBody.h, torch/utils/checkpoint.py). The user's own warnings are none of our business."""

MOST_KEPT = 20


def note_warnings(into: list[str], cwd: str) -> Callable[[], None]:
    """Note each of these warnings in ``into`` when it is shown, as ``train.py:12: text``; returns what undoes it.

    Looked at is the function through which Python shows every warning, whatever ``showwarning`` the program has put
    in: filters stay as they are, and nothing runs where nothing is shown.
    """

    def before(shown: Any, *_: Any) -> None:
        try:
            text = str(shown.message).lstrip()
            known = next((t for t in KNOWN if text.startswith(t)), None)
            if known is not None and len(into) < MOST_KEPT:
                into.append(f"{shown_file(str(shown.filename), cwd)}:{int(shown.lineno)}: {known}")
        except Exception:
            pass  # a message that cannot be turned into text is not one of these

    try:
        return insert_calls(warnings._showwarnmsg, before=before)  # type: ignore[attr-defined]
    except (CannotInsert, AttributeError):
        return lambda: None  # it would have been further evidence; nothing rests on it alone
