"""From the columns of a table to items, workers and classes: names, labels, times and true labels as people write them."""
