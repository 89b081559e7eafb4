"""Code that lies in no file, under the names that people know it by: the cells of a notebook."""

from __future__ import annotations

import linecache
from collections.abc import Callable

called: list[Callable[[str], str]] = []
"""Each says what the file of a code object is called if it knows that code; else an empty string."""

_code_names: dict[str, str] = {}


def name_of(code_name: str) -> str:
    """What a code object's file is called if it is a cell (``In[3]``); else an empty string."""
    for call in called:
        name = call(code_name)
        if name:
            _code_names[name] = code_name
            return name
    return ""


def text_of(name: str) -> str | None:
    """The text of the cell with this name, which IPython keeps where tracebacks look for it; None for other names."""
    code_name = _code_names.get(name)
    return "".join(linecache.getlines(code_name)) if code_name is not None else None
