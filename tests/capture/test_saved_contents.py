"""What a stale saved tensor is, told by every PyTorch, and nothing is different for the program afterwards."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from graphdoc.capture.graph import walk
from graphdoc.capture.tensors import saved
from graphdoc.capture.tensors.facts import storage_of
from graphdoc.capture.witness import Witness


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grads[0]


def leaf(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return w * w.exp(), w


def result(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = w.exp()
    return y, y


def view(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = (w * 2)[0]
    return h * h, h


def function(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = w * 2
    return Square.apply(h), h


@pytest.fixture(params=[True, False], ids=["shown", "asked"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With what this PyTorch shows, and as if it showed nothing."""
    if request.param and not saved.SHOWS:
        pytest.skip("this PyTorch does not show a saved tensor of another version")
    monkeypatch.setattr(saved, "SHOWS", request.param)
    yield
    saved._asked.clear()


def stale_in(root: Any) -> list[tuple[Any, str]]:
    found, todo = [], [root]
    while todo:
        node = todo.pop()
        todo += [n for n, _ in node.next_functions if n is not None]
        names = [a[4:] for a in dir(type(node)) if a.startswith("_raw_saved_")]
        for name in ("saved_tensors" if n == "_saved_tensors" else n for n in names):
            try:
                getattr(node, name)
            except RuntimeError:
                found.append((node, name))
    return found


def failure(loss: torch.Tensor) -> tuple[str, list[str]]:
    with pytest.raises(RuntimeError) as caught:
        loss.backward(retain_graph=True)
    return str(caught.value), [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("make", [leaf, result, view, function])
def test_it_is_had_and_the_program_meets_the_same_error(way: None, make: Callable[[Any], Any]) -> None:
    y, written = make(torch.randn(3, 3, requires_grad=True))
    loss = y.sum()
    with torch.no_grad():
        written.add_(1)
    before = failure(loss)
    stale = stale_in(loss.grad_fn)
    assert stale
    for node, name in stale:
        for _ in range(2):  # a second look at the same graph has it, too
            (tensor,) = saved.stale_contents(node, name)
            assert storage_of(tensor) == storage_of(written) and tensor._version == written._version
            assert tensor.requires_grad or written.is_leaf or make is result  # who holds it says that
    assert failure(loss) == before


def test_nothing_is_kept_alive(way: None) -> None:
    y, written = view(torch.randn(3, 3, requires_grad=True))
    with torch.no_grad():
        written.add_(1)
    node, name = stale_in(y.grad_fn)[0]
    told = weakref.ref(saved.stale_contents(node, name)[0])
    del y, node, written
    gc.collect()
    assert told() is None


def test_what_is_in_order_keeps_its_check(way: None) -> None:
    h = torch.randn(3, requires_grad=True) * 2
    loss = (h * h).sum()
    (node,) = (n for n, _ in loss.grad_fn.next_functions)  # type: ignore[union-attr]
    assert [storage_of(t) for t in saved.contents(node, "_saved_self")] == [storage_of(h)]
    assert [storage_of(t) for t in saved.stale_contents(node, "_saved_self")] == [storage_of(h)]
    with torch.no_grad():
        h.add_(1)
    assert "modified by an inplace operation" in failure(loss)[0]


def test_that_hooks_were_used_is_forgotten_with_the_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two tests or cells the second is looked at whatever the first has used."""
    monkeypatch.setattr(saved, "TELLS", False)
    witness = Witness(torch, str(tmp_path), "observe")
    for _ in range(2):
        saved.watch_hooks(witness)
        assert not saved.all_unknown()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
        assert saved.all_unknown()
        while witness.undoing:
            witness.undoing.pop()()
    assert not saved.all_unknown()


def chain(length: int) -> torch.Tensor:
    """Nodes that save two tensors, one, none by way of a list, a Function's, a hooked one; and one that saves nothing,
    because only its bias is trained."""
    w, frozen = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    state = torch.zeros(2, 2)
    for _ in range(length):
        bias = torch.nn.functional.linear(torch.ones(2, 2), frozen, w[0])
        state = Square.apply((state @ w).tanh() + bias * w.exp())
        with torch.autograd.graph.save_on_cpu():
            state = torch.cat([state, state.sigmoid()])[:2].clamp(max=0.5)
    return state


@pytest.mark.parametrize("again", [False, True])
def test_what_is_seen_to_be_empty_is_what_would_answer_that_it_is_released(
    way: None, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = chain(8)
    old.sum().backward()
    root = (chain(4) + old).sum() if again else old.sum()

    def told(raised: int) -> list[tuple[str, bool]]:
        monkeypatch.setattr(walk, "MOST_RAISED", raised)
        order = walk.walk([root.grad_fn])
        assert not walk.examine_all(order)
        return [(f.op, f.released) for f in order]

    asked = told(walk.MOST_ASKED)
    assert told(2) == asked
    assert {"AddmmBackward0", "TanhBackward0", "SquareBackward"} <= {op for op, _ in asked}
    assert any(released for _, released in asked) and not all(released for _, released in asked)
