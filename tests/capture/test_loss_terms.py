"""The terms of a loss without a graph: which cuts stand in one of them together, and on which one hangs alone."""

from __future__ import annotations

import pytest

from graphdoc.capture.events.cut_records import Origin, Record
from graphdoc.capture.places.stacks import Stack
from graphdoc.capture.second_run.cuts import terms_of


def cut() -> Record:
    record = Record("tensor", Stack(), 0)
    record.origins = [Origin("", [])]
    return record


def made(op: str, *inputs: Record) -> Record:
    record = Record(op, Stack(), 0)
    record.inputs = list(inputs)
    return record


A, B, C = cut(), cut(), cut()


@pytest.mark.parametrize(
    ("loss", "terms"),
    [
        (made("mean", made("sub", made("mul", made("neg", A)), made("mul", B))), [{A}, {B}]),
        (made("mean", made("mul", made("neg", A), made("__rsub__", B))), [{A, B}]),
        (made("add", made("mul", A, made("sub", B, C)), B), [{A, B}, {A, C}, {B}]),
        (made("mse_loss", made("add", A, B)), [{A, B}]),
        (made("sum", made("rand")), []),
    ],
)
def test_terms(loss, terms):
    assert set(terms_of([loss])) == {frozenset(map(id, term)) for term in terms}
