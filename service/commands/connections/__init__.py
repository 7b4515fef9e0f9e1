"""Connections of clients: their protocol, their deadlines and their ends."""
