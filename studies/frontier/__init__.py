"""The frontier: when private federation pays, and when not."""
