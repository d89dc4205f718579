"""The command that a person runs beside the cluster."""
