"""One noisy bilinear statistic of capped rows: what users have together, not who they are."""
