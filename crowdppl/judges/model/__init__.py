"""The model of the true label given all verdicts, and its posterior."""
