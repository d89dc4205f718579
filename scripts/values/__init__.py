"""All mistakes of values at once: the file's text, ``values.schema.json``, the chart's relations.

Helm applies the schema and ends at its errors, in its own words. This package is what says the same
mistakes in the words of the schema's ``errorMessage``, together with those that templates find.
"""
