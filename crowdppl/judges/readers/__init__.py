"""Readers of what evaluation tools write: one function per format, and :func:`crowdppl.judges.read` for all formats."""
