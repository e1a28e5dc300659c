"""Files people have: one module per kind."""
