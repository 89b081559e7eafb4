"""Questions that several causes ask, or that a cause would ask in several steps: each answered once, with its None."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.evidence import Event, Frame, Node, Sign, Stale, Tensor, Write
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.custom_functions import saved_again
from graphdoc.program.gradient_reads import read_on
from graphdoc.program.optimizer_places import Owners
from graphdoc.program.overwrites import Fault, keeping_calls, kept_for_its_round
from graphdoc.program.refused_writes import refused_write
from graphdoc.program.writers import wrote_again

FUNCTION = """
class Scale(torch.autograd.Function):
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        {again}

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
"""


def test_tensors_that_are_saved_in_two_calls() -> None:
    found = saved_again({"f.py": FUNCTION.format(again="ctx.save_for_backward(y)")})
    assert found is not None
    assert ([f.line for f in found.calls], found.unpacked.line) == ([4, 5], 8)
    assert saved_again({"f.py": FUNCTION.format(again="return x * y")}) is None


KEPT = "grads = [p.grad for p in params]\nloss.backward()\n{rest}\n"


def aliased() -> Sign:
    return Sign("grad-aliased", facts={"file": "f.py", "name": "grads", "line": 2})


@pytest.mark.parametrize(("rest", "told"), [("print(grads)", True), ("grads = 0", False), ("", False)])
def test_gradients_that_are_kept_and_read_again(rest: str, told: bool) -> None:
    found = read_on({"f.py": KEPT.format(rest=rest)}, aliased())
    assert (found is not None) is told
    if found is not None:
        assert ([f.line for f in found.places], found.read.line) == ([1], 3)


def test_gradients_that_are_written_through_what_keeps_them_are_known_to_be_the_same() -> None:
    assert read_on({"f.py": KEPT.format(rest="for g in grads:\n    g.zero_()\nprint(grads)")}, aliased()) is None


def calls(*kinds: str) -> Journal:
    """Calls at the numbers 10, 20, …; a backward keeps its graph where its kind ends with ``+``."""
    events = [
        Event(i, k.rstrip("+"), 10 * (i + 1), retain_graph=k.endswith("+"), reaches=["w"]) for i, k in enumerate(kinds)
    ]
    return Journal(events, Owners([]), {})


def test_the_calls_that_kept_an_older_part() -> None:
    journal = calls("backward+", "step", "backward+", "backward")
    node = Node(0, "MulBackward0", 15)
    assert [e.index for e in keeping_calls(journal, node, {"w"}, journal.events[3])] == [2]
    assert keeping_calls(journal, node, {"other"}, journal.events[3]) == []


@pytest.mark.parametrize(
    ("kinds", "served"), [(("backward+", "backward", "step"), True), (("backward+", "step", "backward"), False)]
)
def test_what_a_graph_was_kept_for(kinds: tuple[str, ...], served: bool) -> None:
    journal = calls(*kinds)
    assert kept_for_its_round(journal, list(journal.events[:1]), {"w"}) is served


def test_a_place_that_writes_twice() -> None:
    one, two = ([Frame("f.py", line, 1, line, 5, "f", True)] for line in (1, 2))

    def stale(*stacks: list[Frame]) -> Stale:
        return Stale(0, "_saved_self", Tensor("input", ""), 1, 3, writes=[Write("op", stack=s) for s in stacks])

    assert wrote_again(stale(one, one))
    assert not wrote_again(stale(one, two))


WEIGHT = "w = torch.ones(3, requires_grad=True)\n"


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("x = torch.exp(w)\ny = x * 1\nx.add_(1)\nx.sum().backward()\n", Fault.ACTIVATION),
        (
            "o = torch.optim.SGD([w], lr=0.1)\nloss = (w * w).sum()\nw.grad = torch.ones(3)\no.step()\n"
            "loss.backward()\n",
            Fault.STEPPED,
        ),
        ("loss = (w * w).sum()\nwith torch.no_grad():\n    w.add_(1)\nloss.backward()\n", Fault.PARAMETER),
    ],
)
def test_which_fault_an_overwrite_is(tmp_path: Path, code: str, fault: Fault) -> None:
    found = asked(tmp_path, WEIGHT + code).overwrite
    assert found is not None
    assert found.fault is fault


def test_a_write_that_is_refused_at_once(tmp_path: Path) -> None:
    program = asked(tmp_path, WEIGHT + "w += 1\n")
    write = refused_write(program, "leaf-inplace")
    assert write is not None
    assert (write.target.path, write.visible, write.built) == ("w", True, [])
    assert refused_write(program, "leaf-view-inplace") is None
