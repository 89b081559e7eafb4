"""The pytest plugin: a test that fails by a fault of the graph gets a section with the diagnosis in its report.

Off unless asked for (``--graphdoc``, or ``graphdoc = true`` in the ini file). Each test is observed by itself, from its
set-up to its first failure; an exception that the test expects (``pytest.raises``, ``xfail``) is none. With xdist the
workers do all of this, and what they found travels in the report.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from graphdoc.doors.piece import Failed
    from graphdoc.launch import Request

_WAITING = ("--pdb", "--trace")
"""Options of pytest's that wait for somebody at the keyboard."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options; called by pytest, as all functions here."""
    group = parser.getgroup("graphdoc", "faults of PyTorch's autograd graph")
    group.addoption("--graphdoc", action="store_true", help="Say of failing tests what broke the graph, and where.")
    group.addoption("--no-graphdoc", action="store_true", help="Do not, whatever the ini file says.")
    group.addoption(
        "--graphdoc-no-rerun", action="store_true", help="Never run a failing test a second time to find out more."
    )
    parser.addini("graphdoc", "Say of failing tests what broke the graph, and where.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is loaded and nothing observed unless it was asked for."""
    wanted = config.getoption("graphdoc") or config.getini("graphdoc")
    if wanted and not config.getoption("no_graphdoc"):
        config.pluginmanager.register(Doctor(config), "graphdoc-doctor")


class Doctor:
    """Observes the tests of this process, one at a time."""

    def __init__(self, config: pytest.Config) -> None:
        from graphdoc.doors.piece import Pieces

        self.config = config
        self.pieces = Pieces(str(config.invocation_params.dir))
        self.rerun = not config.getoption("graphdoc_no_rerun")

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, None]:
        """A test begins, or is repeated: its fixtures are a part of it."""
        self._quietly(self.pieces.begin)
        yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """A phase of a test is over. Asked last, when others have said what they expected."""
        outcome = yield
        report = outcome.get_result()
        if report.failed and call.excinfo is not None:
            error = call.excinfo.value
            failed = self._quietly(lambda: self.pieces.failed(error, alone(self.config, item), rerun=self.rerun))
            if failed is not None:
                self._add(report, failed)
        elif call.when == "teardown":
            self._quietly(self.pieces.passed)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One line for each diagnosed test, whatever traceback style was asked for."""
        found = [r for key in ("failed", "error") for r in terminalreporter.stats.get(key, []) if _told(r)]
        troubles = list(dict.fromkeys(self.pieces.troubles))
        if not found and not troubles:
            return
        terminalreporter.section("graphdoc")
        for report in found:
            told = _told(report)
            terminalreporter.line(
                f"{told['code']} at {told['place']} in {report.nodeid}: graphdoc fix {told['folder']}"
            )
        for line in troubles[:4]:
            terminalreporter.line(f"graphdoc: {line}")

    def pytest_unconfigure(self) -> None:
        """The last test is over."""
        self._quietly(self.pieces.close)

    def _add(self, report: Any, failed: Failed) -> None:
        """The diagnosis as a section of the report: behind its traceback, which junit XML has too, where it can."""
        folder = os.path.relpath(failed.folder, self.pieces.cwd)
        text = f"{failed.told.text.rstrip()}\nthis run of the test is kept in {folder}"
        if hasattr(report.longrepr, "addsection"):
            report.longrepr.addsection("graphdoc", text)
        else:
            report.sections.append(("graphdoc", text))
        if failed.told.codes:
            report.graphdoc = {"code": failed.told.codes[0], "place": failed.told.place, "folder": folder}

    def _quietly(self, step: Any) -> Any:
        """The tests' own result stands whatever happens to us; a line at the end says so."""
        try:
            return step()
        except Exception as e:
            self.pieces.troubles.append(f"{type(e).__name__}: {e}")
            return None


def alone(config: pytest.Config, item: pytest.Item) -> Request:
    """The command that runs this test alone, as it was run here: the same options, no other test, no workers."""
    from graphdoc.launch import Request

    here = str(config.invocation_params.dir)
    words = [str(word) for word in config.invocation_params.args if word not in _WAITING]
    for chosen in reversed(config.args):
        if chosen in words:
            del words[len(words) - 1 - words[::-1].index(chosen)]
    if config.pluginmanager.hasplugin("xdist"):
        words.append("-n0")
    path, _, inner = item.nodeid.partition("::")
    path = os.path.relpath(getattr(item, "path", path), here)
    return Request(["pytest", *words, f"{path}::{inner}" if inner else path], "module", cwd=here)


def _told(report: Any) -> dict[str, str]:
    found = getattr(report, "graphdoc", None)
    return found if isinstance(found, dict) else {}
