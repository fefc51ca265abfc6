"""How good a recommendation is."""
