"""What ends a command and is no error of ours: wrong input, told in a line and exit status 2; Ctrl-C; a half
installation."""

from __future__ import annotations


class UsageError(Exception):
    """Something the user asked for cannot be done; ``str()`` of it is one line that says what and why.

    ``graphdoc.__main__.main`` prints it as ``graphdoc: LINE`` on stderr and ends with status 2.
    """


class Interrupted(BaseException):
    """The user wants no more of it: ``number`` is the signal's. No ``Exception``, so that nothing goes on behind it."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted")
        self.number = number


def missing_dependency(error: BaseException) -> str:
    """What to say of an import that failed because graphdoc was installed without what it needs, else nothing."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name not in ("typer", "rich", "libcst"):
        return ""
    return f"{name} is not installed, and graphdoc needs it: `pip install torch-graphdoc` brings what it needs"
