"""Federated recommendations in two messages, each with a privacy proof."""

__version__ = "0.1.0.dev0"
