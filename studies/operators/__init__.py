"""Two operators under faults: of entities, of the way, of themselves."""
