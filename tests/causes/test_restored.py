"""A state that is loaded and is the module's own: the line that loads it says under which name it was kept."""

from __future__ import annotations

import pytest
from made import Program, cause

from graphdoc.evidence import Sign
from graphdoc.program.observed import program_of


@pytest.mark.parametrize("load", ["net.load_state_dict(best)", "put_back(net, best)"])
def test_what_another_package_loads_is_not_named_by_its_first_argument(load: str) -> None:
    program = Program(f"best = net.state_dict()\ntrain(net)\n{load}\n")
    sign = Sign("restored-itself", [program.at(load)], [program.at("net.state_dict()")], facts={"by": "step"})
    evidence = program.evidence()
    evidence.raised, evidence.signs = None, [sign]
    finding = cause("restore-without-effect").recognise(program_of(evidence))
    if load.startswith("put_back"):
        assert finding is None
    else:
        assert finding is not None and finding.title == f"`{load}` restores nothing: `best` is no copy"
