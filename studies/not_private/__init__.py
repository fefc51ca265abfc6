"""Release mechanisms without a proof, for comparison only."""
