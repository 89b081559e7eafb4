"""What of Python's and PyTorch's is put in place in the user's process, and how it is left as it was."""
