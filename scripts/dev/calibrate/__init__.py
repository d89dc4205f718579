"""How far predictions are from what was measured: rows as data, a fit, and a table of errors."""
