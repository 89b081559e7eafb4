"""graphdoc: a crash doctor for PyTorch's autograd."""

__version__ = "0.1.0"


def load_ipython_extension(ipython: object) -> None:
    """Called by ``%load_ext graphdoc``."""
    from graphdoc.doors.notebook import load

    load(ipython)


def unload_ipython_extension(ipython: object) -> None:
    """Called by ``%unload_ext graphdoc``."""
    from graphdoc.doors.notebook import unload

    unload(ipython)
