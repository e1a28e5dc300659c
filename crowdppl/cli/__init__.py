"""The command ``crowdppl``."""
