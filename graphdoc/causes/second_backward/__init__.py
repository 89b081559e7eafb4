"""GD1: trying to backward through the graph a second time."""
