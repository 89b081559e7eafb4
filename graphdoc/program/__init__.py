"""The observed program: what the evidence and the sources answer about it."""
