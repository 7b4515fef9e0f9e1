"""One file per algorithm, named as users write it, in families."""
