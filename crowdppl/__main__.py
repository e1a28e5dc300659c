"""Entry point of ``python -m crowdppl``."""

from crowdppl.cli.main import main

main()
