"""The result of a fit: the tree of draws, the tables of truths and workers, and the file that holds them."""
