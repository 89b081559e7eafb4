"""Width and colour as the environment and a real terminal give them."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from typing import TextIO

import pytest

from graphdoc.render.options import opens_links, terminal_options

LINKS = ("TERM_PROGRAM", "FORCE_HYPERLINK", "TMUX", "VTE_VERSION", "WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION")
NAMES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI", "TERM", "DOMTERM", *LINKS)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """A pseudo-terminal 132 cells wide."""
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    main, side = os.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 132, 0, 0))
    with open(side, "w") as stream:
        yield stream
    os.close(main)


def test_a_terminal_has_its_own_width_and_colour(terminal: TextIO) -> None:
    assert terminal_options(terminal) == (132, True)


def test_a_pipe_has_no_colour() -> None:
    assert terminal_options(io.StringIO()) == (100, False)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"NO_COLOR": "1"}, (132, False)),
        ({"NO_COLOR": ""}, (132, True)),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, (132, False)),
        ({"TERM": "dumb"}, (132, False)),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, (132, True)),
        ({"COLUMNS": "90"}, (90, True)),
        ({"COLUMNS": "20"}, (80, True)),
        ({"COLUMNS": "9" * 5000}, (160, True)),
        ({"COLUMNS": "0"}, (132, True)),
        ({"COLUMNS": "²"}, (132, True)),
        ({"CI": "true"}, (132, True)),
    ],
)
def test_terminal(
    env: dict[str, str], expected: tuple[int, bool], terminal: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert terminal_options(terminal) == expected


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"FORCE_COLOR": "1"}, (100, True)),
        ({"FORCE_COLOR": ""}, (100, False)),
        ({"CI": "true"}, (120, False)),
        ({"CI": "true", "COLUMNS": "150"}, (150, False)),
    ],
)
def test_pipe(env: dict[str, str], expected: tuple[int, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert terminal_options(io.StringIO()) == expected


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert terminal_options(stream) == (100, False)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, False),
        ({"TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM_PROGRAM": "vscode"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"VTE_VERSION": "7200"}, True),
        ({"VTE_VERSION": "4205"}, False),
        ({"VTE_VERSION": "7200", "TMUX": "/tmp/tmux-0/default,1,0"}, False),
        ({"VTE_VERSION": "7200", "CI": "true"}, False),
        ({"VTE_VERSION": "7200", "NO_COLOR": "1"}, False),
        ({"VTE_VERSION": "7200", "TERM": "dumb"}, False),
        ({"VTE_VERSION": "7200", "FORCE_HYPERLINK": "0"}, False),
        ({"FORCE_HYPERLINK": "1"}, True),
    ],
)
def test_links(env: dict[str, str], expected: bool, terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert opens_links(terminal) is expected
    assert opens_links(io.StringIO()) is False
