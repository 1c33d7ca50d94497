"""`pytest validation --site SITE`: the plugin that turns checks into signed evidence."""

from validation.plugin import *  # noqa: F403  (pytest finds hooks and fixtures by their names in this module)
