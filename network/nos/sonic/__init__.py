"""SONiC, configured through config_db.json. Never run on a device."""
