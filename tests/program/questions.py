"""Programs that are really run, and what the model answers about them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "causes"))

from seen import observe

from graphdoc.program.observed import Program, program_of

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\ntorch.manual_seed(0)\n"


def asked(folder: Path, code: str) -> Program:
    """The model of the run of a program that fails."""
    evidence = observe(folder, HEAD + code).evidence
    assert evidence is not None
    return program_of(evidence)
