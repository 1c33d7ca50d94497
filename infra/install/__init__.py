"""Servers from delivery to ready over the network, on a real site: BMCs switch, the boot server reports, nodes answer over SSH."""
