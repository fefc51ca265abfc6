"""A whole federation in this process: every entity's two rounds and the server between them."""

from twofold.data.federation import read_federation
from twofold.simulation.run import Simulated, plan_name, plan_names, simulate

__all__ = ["Simulated", "plan_name", "plan_names", "read_federation", "simulate"]
