"""Facts: what the devices of a site say of themselves, read in bulk, once per run. Reading only; judging is elsewhere."""

from validation.facts.answer import Answer, Facts, FactsError
from validation.facts.gather import gather

__all__ = ["Answer", "Facts", "FactsError", "gather"]
