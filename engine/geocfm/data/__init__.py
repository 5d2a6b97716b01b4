"""Windows, splits and patches: geography turned into tensors."""
