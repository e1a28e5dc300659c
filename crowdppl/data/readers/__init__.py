"""Files people have: one function for each kind, :func:`crowdppl.data.readers.formats.read` for all of them."""
