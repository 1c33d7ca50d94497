"""Cables and addresses of a site: compute fabric, in-band Ethernet and out-of-band management network."""
