"""The commands of ``backhaul``, one file each; `backhaul.cli` puts them together."""
