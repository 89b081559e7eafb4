"""Weights & Biases without an account: everything that is logged is forgotten."""

from __future__ import annotations

from typing import Any


class Nothing:
    """Whatever is asked of it is nothing again."""

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def __getattr__(name: str) -> Nothing:
    return getattr(Nothing(), name)
