"""Whole files, locks, and the container all our files share. Knows nothing of what it stores."""
