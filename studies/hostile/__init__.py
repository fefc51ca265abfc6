"""Hostile files for every parser: ``python -m studies hostile``."""
