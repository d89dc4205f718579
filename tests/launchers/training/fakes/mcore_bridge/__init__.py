"""Stands for mcore-bridge: as much of its interface as the weights' plugins use."""
