"""Predictions from a recipe and a model: layout, memory, FLOPs, step time. Pure.

May import ``storage`` and below.
"""
