"""Mathematics that several algorithms share: losses, exploration, descent steps, linear algebra."""
