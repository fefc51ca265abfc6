"""The local models an entity chooses among, one file each."""
