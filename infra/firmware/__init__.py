"""Firmware of servers: what runs, what the site's bundles want, and the roll-out from one to the other (docs/firmware.md)."""
