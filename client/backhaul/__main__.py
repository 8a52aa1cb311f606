"""``python -m backhaul`` is the command ``backhaul``."""

from backhaul.cli import main

main()
