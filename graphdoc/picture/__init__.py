"""The picture of a run: what a page draws of it, read off the Evidence, in plain data that knows no format."""
