"""Files people have: one function for each kind, :func:`crowdppl.io.formats.read` for all of them."""
