"""The causes of a second backward are told apart: of each program exactly one of them speaks, the right one."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import Example, sick
from seen import observe

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause
from graphdoc.program.observed import program_of

CAUSES = [c for c in all_causes() if c.code.startswith("GD1")]
SICK = [(c, e) for c in CAUSES for e in sick(c)]


def test_there_are_seven_of_them() -> None:
    assert len(CAUSES) == 7
    assert {c for c, _ in SICK} == set(CAUSES)


@pytest.mark.parametrize(("cause", "example"), SICK, ids=[f"{c.slug}-{e.name}" for c, e in SICK])
def test_one_cause_claims_a_program(cause: Cause, example: Example, tmp_path: Path) -> None:
    evidence = observe(tmp_path, example.code).evidence
    assert evidence is not None
    claims = {c.slug: found.strength for c in CAUSES if (found := c.recognise(program_of(evidence))) is not None}
    assert list(claims) == [cause.slug]
    assert claims[cause.slug] >= 0.5
