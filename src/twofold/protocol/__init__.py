"""What the sides agree on: the plan, the two messages, and their bytes. Sees no ratings."""
