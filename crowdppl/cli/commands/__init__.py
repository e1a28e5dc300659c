"""The commands, by topic."""
