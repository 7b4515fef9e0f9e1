"""Off-policy evaluation of models from their logs."""
