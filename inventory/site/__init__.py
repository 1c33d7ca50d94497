"""The site file: loading, messages, what-if, documentation."""

from inventory.site.loading import Site, SiteError, find_site, json_schema, load_site, parse_site, site_names

__all__ = ["Site", "SiteError", "find_site", "json_schema", "load_site", "parse_site", "site_names"]
