"""Readers of annotation files: one function per format, and :func:`crowdppl.data.readers.formats.read` for all formats."""
