"""Linear scores, updated by gradients or mistakes."""
