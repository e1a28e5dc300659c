"""Errors that workers share: their strength, what known true labels say of it, and the coverage that was measured."""
