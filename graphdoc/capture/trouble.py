"""Our own failures inside of the user's process: a line for the parent, and nothing else."""

from __future__ import annotations

import os

from graphdoc.capture.marks import process_name


def note_trouble(out: str, error: BaseException) -> None:
    """One line for the parent; the script's own result stands whatever happens to us."""
    import traceback

    try:
        where = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
        with open(os.path.join(out, f"trouble-{process_name()}.txt"), "a", encoding="utf-8") as f:
            f.write(f"{type(error).__name__}: {error}{place}".replace("\n", " ")[:500] + "\n")
        if os.environ.get("GRAPHDOC_DEBUG"):
            traceback.print_exception(error)
    except Exception:
        pass
