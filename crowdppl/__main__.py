"""``python -m crowdppl``."""

from crowdppl.cli import main

main()
