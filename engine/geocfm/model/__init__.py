"""Tensors only: the network, the flow, its settings, and the checkpoint that describes itself."""
