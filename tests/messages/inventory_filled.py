"""Messages of the inventory as a user would meet them: each placeholder filled with a plausible value."""

from __future__ import annotations

import re

# What stands in the expression, and what is printed for it; the first that fits.
_VALUES = (
    (r"^self\.__class__$", "<class '__main__.Fn'>"),
    (r"^api$", "vjp(f, *primals)"),
    (r"^func_name$", "jacrev"),
    (r"^input_or_output$", "inputs"),
    (r"^argnum$", "2"),
    (r"^op$", "<built-in function sin>"),
    (r"dtype", "torch.float32"),
    (r"shape|\bsize\(|sizes", "[3, 4]"),
    (r"device", "cpu"),
    (r"__name__|__class__|\btype\(|_type\b|typename", "Linear"),
    (r"\blen\(|\bnum|count|\bidx|index|\bi\b|\bn\b|rank|dim|level|size|numel|version", "2"),
    (r"grad_fn|node|\bop\b|op_name", "MulBackward0"),
    (r"lr\b|beta|eps|momentum|weight_decay|rho|alpha|lambd|loss|norm|scale|factor|dampening|\bt0\b", "-0.5"),
)


def filled(text: str) -> str:
    """The template with values in place of its ``⟨expression⟩``."""
    return re.sub(r"⟨([^⟩]*)⟩", _value, text)


def _value(placeholder: re.Match[str]) -> str:
    expression = placeholder.group(1)
    return next((value for pattern, value in _VALUES if re.search(pattern, expression)), "weight")
