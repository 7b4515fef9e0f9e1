"""Exits with 0 if the service in this container is ready, else 1. It imports little, because it runs often."""

import os
import socket
import sys

with socket.create_connection(("127.0.0.1", int(os.environ.get("WAGER_PORT") or 8000)), timeout=2.0) as connection:
    connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = connection.recv(64)
sys.exit(answer.split(b" ")[1:2] != [b"200"])
