"""Annotations beyond the memory of one process: gone through from disk by one, or held in shares by several.

What both have in common stands here: ``parquet`` reads columns of a data set, ``consensus`` writes true labels as they come, and
``result`` is what a fit returns that holds neither annotations nor true labels.
"""
