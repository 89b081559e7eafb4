"""What PyTorch prints about autograd: recognised, read out of logs, turned into Evidence. Needs no torch."""

from graphdoc.messages.flat_text import clean
from graphdoc.messages.log import Failure, read_log
from graphdoc.messages.reading import evidence_from
from graphdoc.messages.recognise import Match, recognise, recognise_exception

__all__ = ["Failure", "Match", "clean", "evidence_from", "read_log", "recognise", "recognise_exception"]
