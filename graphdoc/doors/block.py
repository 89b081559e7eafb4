"""``with graphdoc.observe():`` observes a block of a program that runs already, and tells where an exception leaves it.

For programs that neither ``graphdoc run`` nor GRAPHDOC_OBSERVE can reach: a service, an embedded interpreter, a trainer
that somebody else starts. The report goes to stderr, and the exception on its way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graphdoc.doors.piece import Pieces, here
from graphdoc.launch import Request
from graphdoc.launch.interpreter import program


@contextmanager
def observe() -> Iterator[None]:
    """Observe the block. Its exception is not changed; where the process is observed already, nothing is done.

    What the block did not make itself is told of, its places are not known. ``graphdoc fix`` runs the whole program
    again to try a fix, if it was started as a script or a module.
    """
    watching = Pieces(here())
    watching.begin()
    try:
        yield
    except Exception as error:
        tell(watching, error)
        raise
    finally:
        watching.close()


def tell(watching: Pieces, error: BaseException) -> None:
    """Say on stderr what is known of the exception that has ended the piece. Never raises."""
    try:
        kind, words = program()
        failed = watching.failed(error, Request(words, kind, cwd=watching.cwd), rerun=False)
        lines = [f"graphdoc: {line}" for line in watching.troubles]
        if failed is not None:
            lines += [failed.told.text.rstrip(), f"graphdoc: kept in {failed.folder}: `graphdoc fix` works on it"]
        if lines and sys.stderr is not None:
            print(*lines, sep="\n", file=sys.stderr)
    except Exception as e:
        if sys.stderr is not None:
            print(f"graphdoc: {type(e).__name__}: {e}", file=sys.stderr)
