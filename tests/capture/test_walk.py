"""The walk comes to the nodes as the engine does, and what is gathered upwards is whole, whichever thread made them."""

from __future__ import annotations

import threading

import pytest
import torch

from graphdoc.capture.graph import walk


def graph(in_thread: bool) -> walk.Graph:
    """A value that two operations take, one of them perhaps made by a thread that numbers its nodes from 0."""
    weight = torch.ones(2, requires_grad=True)
    shared = (weight * torch.ones(2, requires_grad=True)).exp()
    made = []
    work = threading.Thread(target=lambda: made.append(shared.sin()))
    work.start() if in_thread else work.run()
    if in_thread:
        work.join()
    return walk.walk([(shared.cos() + made[0]).sum().grad_fn])


@pytest.mark.parametrize("in_thread", [False, True])
def test_an_edge_is_told_behind_those_below_it(in_thread: bool) -> None:
    order = graph(in_thread)
    assert order.by_time is not in_thread
    edges = list(walk.upward(order))
    assert sorted(edges) == sorted(zip(order.sources, order.targets, strict=True))
    for at, (_, target) in enumerate(edges):
        assert not [edge for edge in edges[at:] if edge[0] == target]
    bits, touched, leaves = walk.below(order, bytearray(f.op == "ExpBackward0" for f in order))
    assert len(leaves) == 2
    assert bits[0] == 3
    assert {f.op for f in order if touched[f.number]} == {
        *("SumBackward0", "AddBackward0", "CosBackward0", "SinBackward0", "ExpBackward0"),
    }


def test_the_newest_come_first_and_of_a_part_too() -> None:
    value = torch.ones(2, requires_grad=True)
    for _ in range(20):
        value = value.exp() + value.sin()
    root = value.sum().grad_fn
    whole, part = walk.walk([root]), walk.walk([root], 12)
    made = [whole.sequences[n] for n in whole.newest_first if n not in whole.leaves]
    assert made == sorted(made, reverse=True)
    assert len(whole) == len(whole.newest_first) == 62
    assert part.nodes == whole.nodes[: len(part)]
    assert sorted(part.newest_first) == list(range(len(part)))
    above = walk.Above(whole)
    assert all(above[m] == sorted(n for n in range(62) for k in whole.following(n) if k == m) for m in range(62))
