"""Sparse products, compiled passes and sampling on arrays: no module here knows a model or an :class:`Annotations`."""
