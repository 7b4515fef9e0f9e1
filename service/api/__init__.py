"""The HTTP interface: middleware, routes, responses, and openapi.json."""
