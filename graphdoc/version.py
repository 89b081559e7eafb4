"""The version of graphdoc. It stands in a file of its own, so that whoever tells it need not load the doors."""

__version__ = "0.1.0"
