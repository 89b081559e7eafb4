"""The JSON document that other programs rely on, schema version 1."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from graphdoc.model import Report

BEGINS = re.compile(r'\{\s*"schema_version": \d+,\s*"run": \{\s*"command": \[')


def render(report: Report, *, width: int, color: bool) -> str:
    """``Report.to_json()``, indented by two, ASCII only, ended by a newline."""
    return document(report.to_json())


def document(value: Any) -> str:
    """JSON that can be printed into a job's log as well: nothing in it looks like an order to the runner."""
    text = json.dumps(plain_values(value), indent=2)
    return text.replace("##[", "#\\u0023[").replace("##vso[", "#\\u0023vso[") + "\n"


def plain_values(value: Any) -> Any:
    """What JSON can say: a measurement may be infinite or of a type that is not ours."""
    if isinstance(value, Mapping):
        return {str(k): plain_values(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)
