"""What has to be set before torch is loaded, whichever file of tests comes first."""

import os
import sys
from collections import Counter

import forked  # noqa: F401  it keeps torch from starting threads, with which no process can be forked
import pytest
from hypothesis import settings

settings.register_profile("graphdoc", deadline=None)  # a busy machine is no failure
settings.load_profile("graphdoc")

for finder in sys.meta_path:
    # pytest takes the package for a plugin and would compile each of its modules once more, with other asserts.
    getattr(finder, "_must_rewrite", set()).discard("graphdoc")

# The tests start hundreds of Pythons, and each would compile graphdoc anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Of a test of many programs that are told the same way, ``breadth(n)`` are run at every save, and all in CI."""
    seen: Counter[object] = Counter()
    for item in items:
        breadth = item.get_closest_marker("breadth")
        if breadth is not None:
            seen[item.function] += 1
            if seen[item.function] > breadth.args[0]:
                item.add_marker(pytest.mark.slow)
