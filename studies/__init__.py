"""The laboratory: figures of the paper, comparisons, and variants that are not private. Not in the wheel."""
