"""The network under load, hostility and kills: a real service on this machine, and everything that goes wrong."""
