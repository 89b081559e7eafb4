"""Runs that graphdoc starts by itself: they leave no mark on the user's files and services, and nothing outlives them.

Three ways, the first that holds is taken:

``namespaces``  every place that can be written lies below a layer in memory, the network is the loopback interface
                alone, and the processes end with their first one (Linux, where a user may have namespaces)
``layer``       Python's and torch's own file calls are redirected to a scratch folder inside the program; what cannot
                be redirected ends the run
``open``        nothing holds here: the program is run as it stands, and only for a user who has asked for it
"""

from graphdoc.launch.isolation.apart import CannotIsolate, CannotStart, check_ways, launch_apart, patience
from graphdoc.launch.isolation.forks import Forks
from graphdoc.launch.isolation.stopping import Stop, stoppable

__all__ = ["CannotIsolate", "CannotStart", "Forks", "Stop", "check_ways", "launch_apart", "patience", "stoppable"]
