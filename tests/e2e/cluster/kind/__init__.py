"""The kind backend: nodes are containers; JobSet and Kueue are installed from released charts."""
