"""The one error that a user's own input can cause: a clear line and exit status 2."""

from __future__ import annotations


class UsageError(Exception):
    """Something the user asked for cannot be done; ``str()`` of it is one line that says what and why.

    ``graphdoc.__main__.main`` prints it as ``graphdoc: LINE`` on stderr and ends with status 2.
    """
