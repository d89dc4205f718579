"""Models and datasets from hubs: listing, transfer, verification.

May import ``storage`` and below.
"""
