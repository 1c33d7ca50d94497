"""Cumulus Linux, configured through NVUE: rendering (startup.py) and driver over REST (driver.py). Never run on a device."""
