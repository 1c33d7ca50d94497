"""What a plan is: its data, the columns of its frames, its hashes."""

from capacity.model.plan import Plan

__all__ = ["Plan"]
