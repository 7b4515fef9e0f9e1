"""Other ways to serve a bandit over HTTP, with our routes and bodies, and the contest between them."""
