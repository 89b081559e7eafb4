"""Stacks of events are read by a shortcut: it must give what the walk gives, however near or far the caller is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map, tree_structure

from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of, site_of


@pytest.fixture(autouse=True)
def _no_marks_stay() -> Iterator[None]:
    yield
    stacks.forget_here()


def called(look: Callable[[Any], stacks.Seen], depth: int) -> stacks.Seen:
    return called(look, depth - 1) if depth else look(1)


def test_the_shortcut_gives_what_the_walk_gives() -> None:
    stacks.stack_here()
    warm = stacks.Look()
    for depth in (2, 2, 5, 1, stacks.Look.FARTHEST + 5, 2, 0, 2):
        sites = []
        for look in (warm, stacks.Look(), warm):
            whole = stacks.stack_of_seen(called(look, depth))
            sites.append(site_of(whole, library=True))
        assert sites[0] == sites[1] == sites[2]
        assert [f.function for f in frames_of(whole, "/")][-depth - 1 :] == ["called"] * (depth + 1)


def test_without_a_caller_that_has_a_stack_everything_is_read() -> None:
    stacks.forget_here()
    look = stacks.Look()
    for _ in range(3):
        seen = called(look, 1)
        assert seen[-1] is None
        assert "test_without_a_caller_that_has_a_stack_everything_is_read" in [
            f.function for f in frames_of(stacks.stack_of_seen(seen), "/")
        ]


def test_a_nearer_stack_does_not_change_what_is_read() -> None:
    stacks.stack_here()
    look = stacks.Look()

    def event(mark: bool) -> tuple[int, ...]:
        if mark:
            stacks.stack_here()
        return site_of(stacks.stack_of_seen(called(look, 1)), library=True)

    assert len({event(mark) for mark in (False, False, True, False)}) == 1


def test_no_frame_is_kept_by_what_is_read() -> None:
    stacks.stack_here()
    seen = called(stacks.Look(), 3)
    assert {type(x).__name__ for x in seen} == {"code", "int", "Stack"}


def test_torchs_own_functions_are_read_once_and_their_callers_each_time() -> None:
    undo = stacks.stand_in(torch)
    stacks.stack_here()
    quick, whole = stacks.Look(one_way=True), stacks.Look()

    def here(look: stacks.Look) -> stacks.Seen:
        return tree_map(look, 1)  # calls it from unflatten; 1 is the depth

    def there(look: stacks.Look) -> stacks.Seen:
        return nearer(look)

    def nearer(look: stacks.Look) -> stacks.Seen:
        return tree_structure(1).unflatten(map(look, [1]))

    try:
        for place in (here, here, there, here, there):
            first, second = place(quick), place(whole)
            assert first[0].co_filename.startswith(str(Path(torch.__file__).parent))
            assert first[::2] == second[::2], "the same functions, the same nearest stack"
    finally:
        undo()


def node(_: int) -> bool:
    """Whether the stack that a node made here would get is that of the functions that run now."""
    raw, whole = stacks.format_stack().raw, stacks.RawStack()
    frame: Any = sys._getframe()
    while frame is not None:
        whole += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return raw[:1] == whole[:1] and raw[2:] == whole[2:]


class Direct(torch.nn.Module):
    def forward(self, x: int) -> bool:
        return node(x)


class Resumed(torch.nn.Module):
    def forward(self, x: int) -> bool:
        return False not in [node(x + i) for i in range(2)] and all(node(x) for _ in range(2))


class Around(Direct):
    def __call__(self, x: int) -> bool:
        return bool(self._call_impl(x))


def test_each_way_to_a_node_gives_the_whole_stack() -> None:
    undo = stacks.stand_in(torch)
    try:
        ways: list[Any] = [Direct(), node, Around(), Resumed(), Direct().forward, lambda x: node(x) and Direct()(x)]
        assert False not in [each(1) for way in ways * 4 for each in (way, ways[0])]
        sys.settrace(lambda *_: None)  # begins while functions run that have a stack
        assert False not in [way(1) for way in ways * 4]
    finally:
        sys.settrace(None)
        undo()
