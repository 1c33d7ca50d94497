"""FRRouting on Linux switches."""
