"""Training programs with their hand-written right versions: each run for a few steps, their parameters compared."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from marked import fixed, unmark
from seen import observe

from graphdoc.finding import Remedy
from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build
from graphdoc.source.module import Source

Parameters = list[torch.Tensor]

NETS = """\
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
head = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
nets = [body, head]
x, y = torch.randn(6, 3), torch.randn(6, 1)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
"""


@dataclass(frozen=True)
class Case:
    """One kind of fix in a program that trains; the program leaves its networks in ``nets``.

    Args:
        kind: the kind that mends it.
        sick: the program; where the fix is built directly, with the places marked as in ``marked.py``.
        right: the same training written by hand, without regard to how the kind goes about it.
        start: what both begin with.
        loop: both are run three times, with the gradients set to None before each.
        args: of the kind, where it is built directly; ``first`` names the argument of the first mark.
        inside: the kinds that ``several`` is made of.
        silent: the program does not crash, it only trains wrongly.
        filled: what its author writes for each placeholder of the patch, which until then stops at it.
        near: why the numbers may differ in their last bits; where it is empty they have to be the very same.
    """

    kind: str
    sick: str
    right: str
    start: str
    loop: bool = False
    args: dict[str, Any] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    silent: bool = False
    filled: dict[str, str] = field(default_factory=dict)
    near: str = ""

    @property
    def name(self) -> str:
        return "-".join((self.kind, *self.inside))

    @property
    def kinds(self) -> set[str]:
        return {self.kind, *self.inside}

    def program(self, body: str) -> str:
        body = textwrap.dedent(body)
        if self.loop:
            body = "for step in range(3):\n    opt.zero_grad()\n" + textwrap.indent(body, "    ")
        return textwrap.dedent(self.start) + body


def trained(text: str) -> Parameters:
    """Run a program to its end and give the parameters that it leaves."""
    scope: dict[str, Any] = {"__name__": "program"}
    with torch.enable_grad():  # on its way out it sets back what the program switched
        exec(compile(text, "program.py", "exec", dont_inherit=True), scope)
    return [p.detach().clone() for n in scope["nets"] for p in n.parameters()]


def check_built(case: Case) -> None:
    """The kind, built from the marked places, makes the sick program train as the right one does."""
    args = dict(case.args)
    sick = case.program(case.sick)
    if case.silent:
        assert not _same(case, trained(unmark(sick)[0]), trained(case.program(case.right))), "nothing is wrong here"
    else:
        with pytest.raises((RuntimeError, TypeError, ValueError, AttributeError)):
            trained(unmark(sick)[0])
    _check(case, fixed(case.kind, sick, args.pop("first", "place"), **args))


def check_proposed(case: Case, folder: Path) -> None:
    """The kind is among what graphdoc itself proposes for the observed run, and makes the program train rightly."""
    built = [
        (r, b)
        for r, b in proposed(case.program(case.sick), folder)
        if (r.kind, _inside(r)) == (case.kind, set(case.inside))
    ]
    assert built, "not proposed, or it cannot be written"
    remedy, (mended,) = built[0][0], built[0][1].values()
    assert remedy.placeholders.keys() == case.filled.keys()
    assert (remedy.safety == "placeholders") == bool(case.filled)
    if case.filled:
        with pytest.raises(NameError, match="|".join(case.filled)):
            trained(mended)
    for name, written in case.filled.items():
        mended = mended.replace(name, written)
    _check(case, mended)


def proposed(program: str, folder: Path) -> list[tuple[Remedy, dict[str, str]]]:
    """What graphdoc proposes for the observed run of a program that fails, and can be written: with the sources."""
    seen = observe(folder / "observed", program)
    assert seen.result.status == 1 and seen.evidence is not None and seen.found, seen.result.stderr
    sources = {f: Source(f, t) for f, t in seen.evidence.sources.items()}
    out = []
    for remedy in (r for f in seen.found for r in f.finding.remedies):
        try:
            out.append((remedy, build(remedy.kind, sources, remedy.args, remedy.placeholders)))
        except CannotFix:
            continue
    return out


def _inside(remedy: Remedy) -> set[str]:
    return {e["kind"] for e in remedy.args["edits"]} if remedy.kind == "several" else set()


def _check(case: Case, mended: str) -> None:
    wanted = trained(case.program(case.right))
    assert not _same(case, wanted, trained(textwrap.dedent(case.start))), "the right version trains nothing"
    got = trained(mended)
    assert _same(case, got, wanted), f"{mended}\n{got}\n{wanted}"


def _same(case: Case, one: Parameters, other: Parameters) -> bool:
    equal = _close if case.near else torch.equal
    return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=1e-6)
