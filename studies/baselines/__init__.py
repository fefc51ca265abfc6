"""Baselines an outsider will ask for: alone, pooled, and shared the way others do it, each tuned by the same budget."""
