"""The random numbers of a run that is to be compared with another: where they start, and how far they have come."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any


def seed(torch: Any) -> None:
    """Programs that set no seed must be comparable too; one that does sets it later."""
    random.seed(0)
    torch.manual_seed(0)
    try:
        import numpy

        numpy.random.seed(0)
    except ImportError:
        pass


def draws(torch: Any) -> str:
    """How far the program has come in its random numbers: equal in two runs that have drawn as many."""
    with torch._C.DisableTorchFunction():  # no mode, ours or the program's, is to see thousands of numbers read
        drawn = bytes(torch.get_rng_state().tolist())
    states = [drawn, repr(random.getstate()).encode()]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states.append(repr([getattr(part, "tolist", lambda part=part: part)() for part in numpy.get_state()]).encode())
    return hashlib.blake2b(b"".join(states), digest_size=8).hexdigest()
