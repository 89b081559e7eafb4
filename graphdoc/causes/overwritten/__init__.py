"""GD2: modified by an in-place operation."""
