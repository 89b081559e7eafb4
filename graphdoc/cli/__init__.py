"""The command line: ``arguments`` reads it, ``app`` puts the commands together, one thin file for each."""
