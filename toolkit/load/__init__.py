"""The load generator `wager load`, which uses only the HTTP interface of the service."""
