"""Whose a file is: the user's own, or Python's, an installed package's or an installer's."""

from __future__ import annotations

import os
import sysconfig

import pytest
import torch

from graphdoc.capture.places.code_places import is_user_file

SCRIPTS = sysconfig.get_path("scripts")


@pytest.mark.parametrize(
    ("name", "users"),
    [
        (__file__, True),
        ("train.py", True),
        ("train", True),
        (os.path.join(SCRIPTS, "train.py"), True),
        (os.path.join(SCRIPTS, "torchrun"), False),
        (torch.__file__, False),
        (os.__file__, False),
        ("<frozen runpy>", False),
    ],
)
def test_whose_a_file_is(name: str, users: bool) -> None:
    assert is_user_file(name) is users
