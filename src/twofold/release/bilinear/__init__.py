"""One noisy bilinear statistic of capped rows: which items users share, not who they are."""
