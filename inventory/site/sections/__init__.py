"""The sections of a site file, each with the rules that judge it."""
