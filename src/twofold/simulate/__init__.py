"""A whole federation in this process: every entity's two rounds and the server between them."""

from twofold.simulate.names import plan_name, plan_names
from twofold.simulate.read import read_federation
from twofold.simulate.result import Simulated
from twofold.simulate.run import simulate

__all__ = ["Simulated", "plan_name", "plan_names", "read_federation", "simulate"]
