"""GD7: nothing crashes, and what is trained is not what was meant."""
