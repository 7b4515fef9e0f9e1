"""`wager evaluate`: evaluation of any policies on a whole log, from files or a running service."""
