"""Annotations: identifiers and labels in, checked and sorted index tensors out; readers, features, datasets, synthetic data."""
