"""What is done beside something else: its end, its failures, and that nobody waits for what is not wanted any more."""

from __future__ import annotations

import threading

import pytest

from graphdoc.errors import Interrupted
from graphdoc.launch.isolation import Stop
from graphdoc.launch.isolation.stopping import Beside


def test_what_it_raised_is_raised_where_it_is_waited_for() -> None:
    beside, done = Beside(Stop()), []
    beside.begin(lambda: done.append(1))
    assert beside.is_on
    beside.wait()
    assert done == [1] and not beside.is_on
    beside.begin(lambda: {}["missing"])
    with pytest.raises(KeyError):
        beside.wait()
    beside.wait()


def until_told_to_end(beside: Beside, ended: threading.Event) -> None:
    tick = threading.Event()
    try:
        while True:
            beside.check()
            tick.wait(0.01)
    finally:
        ended.set()


def test_it_ends_when_nobody_wants_it_and_who_ended_it_goes_on() -> None:
    beside, ended = Beside(Stop()), threading.Event()
    beside.begin(lambda: until_told_to_end(beside, ended))
    beside.end()
    assert ended.is_set()
    beside.check()


def test_a_signal_ends_both() -> None:
    stop, ended = Stop(), threading.Event()
    beside = Beside(stop)
    beside.begin(lambda: until_told_to_end(beside, ended))
    stop.number = 2
    with pytest.raises(Interrupted):
        beside.check()
    with pytest.raises(Interrupted):
        beside.wait()
    assert ended.is_set()
