"""Background work on models that are due, whether or not a worker has loaded them."""
