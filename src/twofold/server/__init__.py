"""The untrusted server: messages of round 1 in, item factors out, once. Cannot import data or entity code."""

from twofold.server.factorize import Server
from twofold.server.rows import SharedFactors, factorize_rows

__all__ = ["Server", "SharedFactors", "factorize_rows"]
