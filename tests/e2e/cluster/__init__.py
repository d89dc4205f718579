"""A Kubernetes cluster on this machine, with JobSet and Kueue: of kind, or of plain processes."""
