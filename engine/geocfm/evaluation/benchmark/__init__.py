"""The paper's synthetic benchmark and its ablations, with the paper's numbers beside ours."""
