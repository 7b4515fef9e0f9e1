"""Background work: the upkeep of loaded models, and visits to models that are due, loaded or not."""
