"""The graph of a failing call, read after the failure: a walk, its terms, edges into older graphs, the post-mortem."""
