"""What only a second run looks for: births of nan, cuts, in-place writes, a graph of the second order."""
