"""The server nobody has to trust: messages of round 1 in, item factors out, once. Cannot import data or entity code."""

from twofold.server.coordinate import Coordinator, Progress
from twofold.server.factorize import Server
from twofold.server.rows import SharedFactors, factorize_rows

__all__ = ["Coordinator", "Progress", "Server", "SharedFactors", "factorize_rows"]
