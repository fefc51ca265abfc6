"""What happens inside an entity: its one release, the local fit, recommendations. Nothing here sends anything."""
