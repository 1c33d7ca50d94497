"""Cooling: heat, air and coolant."""
