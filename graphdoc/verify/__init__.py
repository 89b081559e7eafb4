"""Tries a fix: the patched program beside the original, and what that does to the gradients."""

from graphdoc.verify.compared import Verdict
from graphdoc.verify.trial import Trial

__all__ = ["Trial", "Verdict"]
