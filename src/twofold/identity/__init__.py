"""Who takes part: secret keys on disk and the public roster."""
