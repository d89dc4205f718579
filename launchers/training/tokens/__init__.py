"""Tokenise rows once, on one rank, and keep them on the workspace."""
