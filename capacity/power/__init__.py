"""Power: supplies, cords, circuits, feeds and site totals."""
