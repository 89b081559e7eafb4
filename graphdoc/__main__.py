"""The ``graphdoc`` command, and ``python -m graphdoc``."""

from __future__ import annotations

import os
import sys


def _here() -> str:
    """The working directory, or an empty string where it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


if __name__ == "__main__" and sys.path[:1] == [_here()] and not sys.flags.safe_path:
    # `python -m` looks in the working directory first, and a random.py among the user's files is none of our modules.
    del sys.path[0]


def main() -> None:
    """Run the command line; ends with status 2 and one line on stderr where the input, or graphdoc, is at fault, and
    with one line and 130 after Ctrl-C."""
    import signal
    import threading

    from graphdoc.errors import Interrupted, UsageError, missing_dependency

    try:
        ours = threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        from graphdoc.cli.arguments import plain, quick, with_settings

        if not _here():
            _end("the working directory is no longer there")
        sys.argv[1:] = with_settings(sys.argv[1:])
        wanted = quick(sys.argv[1:])
        if wanted is not None:
            from graphdoc.cli.running import run

            sys.exit(run(*wanted))
        if sys.argv[1:2] == ["explain"] and (words := plain(sys.argv[2:], "text")) is not None:
            from graphdoc.cli.explaining import explain

            sys.exit(explain(*words))
        if sys.argv[1:2] == ["show"] and (words := plain(sys.argv[2:], "terminal")) is not None:
            from pathlib import Path

            from graphdoc.cli.running import show_run

            show_run(Path(words[0]) if words[0] is not None else None, words[1])
            sys.exit(0)
        from graphdoc.cli.app import app

        app(prog_name="graphdoc")
    except UsageError as e:
        _end(str(e))
    except Interrupted as e:
        _end("interrupted", 128 + e.number)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who reads has seen enough; the exit flushes once more
        sys.exit(1)
    except Exception as e:
        if missing_dependency(e):
            _end(missing_dependency(e))
        from graphdoc.evidence import EvidenceError

        if isinstance(e, EvidenceError):
            _end(str(e))
        if os.environ.get("GRAPHDOC_DEBUG"):
            raise
        _end(f"internal error: {type(e).__name__}: {e} (GRAPHDOC_DEBUG=1 shows where)")


def _interrupt(number: int, _frame: object) -> None:
    """Unlike a KeyboardInterrupt, which typer ends in words of its own."""
    from graphdoc.errors import Interrupted

    raise Interrupted(number)


def _end(line: str, status: int = 2) -> None:
    from graphdoc.cli.output import say

    say(line)
    sys.exit(status)


if __name__ == "__main__":
    main()
