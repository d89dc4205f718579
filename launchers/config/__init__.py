"""What the environment and ``recipe.yaml`` say, parsed once into frozen dataclasses.

May import the package root only.
"""
