"""Attacks on the trust base: what a dishonest server with dishonest participants opens, and ε at the edges of data."""
