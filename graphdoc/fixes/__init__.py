"""The kinds of fix: a file for each idea, a function for each kind."""
