"""Arista EOS: driver over eAPI (driver.py). Never run on a device; nothing renders its configurations yet."""
