"""Experiments: the figures of the paper, and variants that are shown but never offered as private."""
