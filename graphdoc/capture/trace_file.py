"""The file of a trace: one JSON object a line, written as it happens; each process has its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


class TraceFile:
    """``trouble`` is told of what could not be written; the program goes on."""

    def __init__(self, folder: str, trouble: Callable[[BaseException], None]) -> None:
        self._folder, self._trouble = folder, trouble
        self._pid = -1
        self._stream: Any = None

    def write(self, record: dict[str, Any]) -> None:
        try:
            if self._pid != os.getpid():
                # A forked process writes a file of its own.
                self._pid = os.getpid()
                path = os.path.join(self._folder, f"trace-{self._pid}.jsonl")
                self._stream = open(path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
                self._stream.write(json.dumps({"k": "start", "rank": int(os.environ.get("RANK", "-1"))}) + "\n")
            self._stream.write(json.dumps(record) + "\n")
            self._stream.flush()
        except Exception as e:
            self._trouble(e)
