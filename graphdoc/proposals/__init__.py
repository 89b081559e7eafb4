"""From the remedies of a report to patches: built by the kinds of fix, tried, put in order."""
