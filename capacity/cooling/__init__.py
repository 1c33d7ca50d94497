"""Cooling: heat and air."""
