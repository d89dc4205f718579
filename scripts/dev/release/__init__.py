"""Artifacts of `make release` and `make package`: package, wheel, SBOM and digests of one version.

Equal sources give equal bytes: no clock, no owner and no order of a file system gets into a file.
"""
