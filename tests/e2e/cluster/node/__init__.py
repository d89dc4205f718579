"""A node of the processes backend: Linux namespaces that run containerd, kubelet and kube-proxy."""
