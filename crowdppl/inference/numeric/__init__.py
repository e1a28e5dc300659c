"""Engines for labels that are numbers."""
