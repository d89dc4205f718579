"""Products and sums over a layer's experts: one kernel per layer, and a fixed order of summation."""
