"""Every experiment of the paper, run again, with a verdict on every claim."""
