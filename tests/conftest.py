"""What has to be set before torch is loaded, whichever file of tests comes first."""

import os
import sys

import forked  # noqa: F401  it keeps torch from starting threads, with which no process can be forked
from hypothesis import settings

settings.register_profile("graphdoc", deadline=None)  # a busy machine is no failure
settings.load_profile("graphdoc")

# The tests start hundreds of Pythons, and each would compile graphdoc anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
