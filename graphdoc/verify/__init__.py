"""Tries a fix: the patched program beside the original, and what that does to the gradients."""

from graphdoc.verify.trial import Trial
from graphdoc.verify.verdict import Verdict

__all__ = ["Trial", "Verdict"]
