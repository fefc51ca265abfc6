"""The laboratory: figures of the paper, comparisons, and what is shown but never offered as private. Not in the wheel."""
