"""Tokenise the rows of a dataset once and cache them on the workspace."""
