"""Bodies that describe what a model does."""
