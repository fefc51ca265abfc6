"""The laboratory: the figures of the paper, comparisons, and variants never offered as private. Not in the wheel."""
