"""graphdoc: a crash doctor for PyTorch's autograd."""

TYPE_CHECKING = False  # nothing is imported here: this module stands in every observed process
if TYPE_CHECKING:
    from graphdoc.doors.piece import observe
    from graphdoc.version import __version__

__all__ = ["__version__", "observe"]


def __getattr__(name: str) -> object:
    """``graphdoc.__version__`` and ``graphdoc.observe``, loaded when they are asked for."""
    if name == "__version__":
        from graphdoc.version import __version__

        return __version__
    if name == "observe":
        from graphdoc.doors.piece import observe

        return observe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(ipython: object) -> None:
    """Called by ``%load_ext graphdoc``."""
    from graphdoc.doors.notebook import load

    load(ipython)


def unload_ipython_extension(ipython: object) -> None:
    """Called by ``%unload_ext graphdoc``."""
    from graphdoc.doors.notebook import unload

    unload(ipython)
