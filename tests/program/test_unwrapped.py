"""Which wrapper a call has gone past is read off the source, and left open where it does not show."""

from __future__ import annotations

import pytest
from made import Program

from graphdoc.program.library_calls import wrapper_past


@pytest.mark.parametrize(
    ("program", "call", "wrapper"),
    [
        ("out = model.module(x)\n", "model.module(x)", "model"),
        ("out = self.model.module(x)\n", "self.model.module(x)", "self.model"),
        ("out = accelerator.unwrap_model(model)(x)\n", "accelerator.unwrap_model(model)(x)", "model"),
        ("raw = model.module\nnet = raw\nout = net(x)\n", "net(x)", "model"),
        ("raw = model.module if wraps(model) else model\nout = raw(x)\n", "raw(x)", "model"),
        ("raw = getattr(model, 'module', model)\nout = raw(x)\n", "raw(x)", "model"),
        ("raw = getattr(model, 'inner', model)\nout = raw(x)\n", "raw(x)", ""),
        ("raw = getattr(*asked)\nout = raw(x)\n", "raw(x)", ""),
        ("raw = parts.getattr('net')\nout = raw(x)\n", "raw(x)", ""),
        ("raw = model.module\nif fast:\n    raw = other.module\nout = raw(x)\n", "raw(x)", ""),
        ("out = model.module.loss(x)\n", "model.module.loss(x)", ""),
        ("out = net(x)\n", "net(x)", ""),
    ],
)
def test_wrapper(program: str, call: str, wrapper: str) -> None:
    made = Program(program)
    assert wrapper_past(made.evidence("").sources, made.at(call)) == wrapper
