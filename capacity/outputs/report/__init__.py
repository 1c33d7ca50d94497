"""The HTML report: pages, pictures, drawings."""
