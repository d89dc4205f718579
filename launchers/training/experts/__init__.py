"""Products and sums over a layer's experts."""
