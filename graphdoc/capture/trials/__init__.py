"""What a trial of a patch and a compared run leave: their trace, their end, and the run to compare with."""
