"""GD8: distributed training, checkpoints, compiled graphs."""
