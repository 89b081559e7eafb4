"""Whose deed a write is, by the frames that it came through."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Event, Evidence, Frame, Optimizer, Stale, Tensor, Write
from graphdoc.program.writers import By, writer_of, writers_of

LINE = Frame("train.py", 7, 1, 7, 20, "main", True)
OTHER = Frame("train.py", 9, 1, 9, 20, "main", True)


def torchs(file: str, function: str) -> Frame:
    return Frame(f"/site-packages/{file}", 1, 1, 1, 2, function, False)


@pytest.mark.parametrize(
    ("op", "stack", "by", "told"),
    [
        ("Adam.step", [LINE], By.STEP, "Adam.step()"),
        ("copy_", [LINE, torchs("torch/nn/modules/module.py", "Module.load_state_dict")], By.LOAD, "load_state_dict()"),
        ("relu_", [LINE, torchs("torch/nn/modules/activation.py", "ReLU.forward")], By.LIBRARY, "relu_"),
        ("add_", [LINE], By.LINE, "add_"),
    ],
)
def test_whose_deed_a_write_is(op: str, stack: list[Frame], by: By, told: str) -> None:
    writer = writer_of(Evidence().sources, Evidence().events, Evidence().optimizers, Write(op, stack))
    assert (writer.by, writer.op, writer.frame) == (by, told, LINE)


def test_a_step_is_found_in_the_journal_by_its_place() -> None:
    step = Event(4, "step", stack=[LINE], optimizer=0)
    evidence = Evidence(events=[step], optimizers=[Optimizer(0, "SGD", "opt", ["w"])])
    assert writer_of(evidence.sources, evidence.events, evidence.optimizers, Write("SGD.step", [LINE])).event is step


def test_one_writer_for_each_place_the_first_tensor_first() -> None:
    first = Stale(0, "_saved_self", Tensor(), 0, 2, writes=[Write("add_", [OTHER], 2), Write("mul_", [LINE], 1)])
    second = Stale(1, "_saved_self", Tensor(), 0, 1, writes=[Write("add_", [OTHER], 1)])
    found = writers_of(Evidence().sources, Evidence().events, Evidence().optimizers, [first, second])
    assert [(w.frame, w.stale) for w in found] == [(LINE, first), (OTHER, first)]
