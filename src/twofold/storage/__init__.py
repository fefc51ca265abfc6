"""Complete files, locks, and the container that all files share. Independent of what is stored."""
