"""Routes that copy models, and replace their states and learners."""
