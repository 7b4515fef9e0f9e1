"""When requests are due, and how long they take."""
