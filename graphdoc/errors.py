"""The errors that are not ours: a user's own input, told in a clear line and exit status 2, and a half installation."""

from __future__ import annotations


class UsageError(Exception):
    """Something the user asked for cannot be done; ``str()`` of it is one line that says what and why.

    ``graphdoc.__main__.main`` prints it as ``graphdoc: LINE`` on stderr and ends with status 2.
    """


def missing_dependency(error: BaseException) -> str:
    """What to say of an import that failed because graphdoc was installed without what it needs, else nothing."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name not in ("typer", "rich", "libcst"):
        return ""
    return f"{name} is not installed, and graphdoc needs it: `pip install torch-graphdoc` brings what it needs"
