"""The use cases predict and give feedback, and the model sessions of a worker."""
