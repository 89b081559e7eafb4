"""Switches by which the known experiment trackers and hubs keep quiet, each by its own documented variable."""

from __future__ import annotations

import os
from collections.abc import Mapping

_SWITCHES = {
    # docs.wandb.ai, "Can I turn off wandb when testing my code?"
    "WANDB_MODE": "disabled",
    # The one value that both clients know: "debug" is neptune's alone, "disabled" neptune-scale's (docs.neptune.ai).
    "NEPTUNE_MODE": "offline",
    # comet_ml.start() and, of the same name before it, COMET_MODE as transformers' callback reads it.
    "COMET_START_ONLINE": "0",
    "COMET_MODE": "DISABLED",
    # Its newer versions refuse a file store without it (their own error names the variable).
    "MLFLOW_ALLOW_FILE_STORE": "true",
    # clear.ml/docs, "Offline Mode"
    "CLEARML_OFFLINE_MODE": "1",
    # huggingface.co/docs/huggingface_hub, "Environment variables"; what is in the cache is still found.
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def quiet_trackers(environment: Mapping[str, str], scratch: str) -> dict[str, str]:
    """The environment with every tracker off; what mlflow records goes to ``scratch``."""
    # mlflow.org/docs: a file store is one of the places that this variable may name.
    return {**environment, **_SWITCHES, "MLFLOW_TRACKING_URI": "file://" + os.path.join(scratch, "mlruns")}
