"""The environment and ``recipe.yaml``, parsed once into frozen dataclasses.

May import the package root only.
"""
