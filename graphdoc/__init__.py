"""graphdoc: a crash doctor for PyTorch's autograd."""

__version__ = "0.1.0"
