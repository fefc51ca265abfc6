"""The frontier: when private federation is worth it, and when not."""
