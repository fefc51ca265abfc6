"""Ways to carry the two messages. A transport sees bytes, never ratings; it may be replaced without anyone noticing."""
