"""Pages of results: HTML and Markdown."""
