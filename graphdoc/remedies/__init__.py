"""Which fixes fit a fault, in which order."""
