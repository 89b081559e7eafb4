"""GD3: what was to be differentiated has no graph."""
