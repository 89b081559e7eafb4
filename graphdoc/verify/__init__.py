"""Tries a fix: the patched program beside the original, and what that does to the gradients."""
