"""Attempts to falsify a mechanism."""
