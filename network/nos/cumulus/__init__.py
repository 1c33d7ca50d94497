"""Cumulus Linux, configured through NVUE. Rendered only: there is no driver."""
