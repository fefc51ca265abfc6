"""What it is worth if every person is an entity of their own."""
