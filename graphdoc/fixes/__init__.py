"""The kinds of fix, one file for each."""
