"""The use cases predict and give feedback, and one model's session in a worker."""
