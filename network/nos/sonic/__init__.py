"""SONiC, configured through config_db.json. Rendered only: there is no driver."""
