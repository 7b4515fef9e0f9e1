"""Starts all threads of a worker: a pool starts each when a job first finds the others busy, which may take an hour."""

import asyncio
import os
import threading

from fastapi import APIRouter, Request

from service.api.responses.bodies import compute_of

_PATIENCE = 30.0  # seconds


def threads_route() -> APIRouter:
    """Return a route that keeps every thread of both pools busy at once, so that no more will start."""
    routes = APIRouter(prefix="/bench")

    @routes.post("/threads")
    async def threads(request: Request) -> None:
        of_loop = threading.Barrier(min(32, (os.cpu_count() or 1) + 4))  # as many as concurrent.futures starts at most
        of_compute, compute = threading.Barrier(2), compute_of(request.scope)  # WAGER_COMPUTE_THREADS
        await asyncio.gather(
            *(asyncio.to_thread(of_loop.wait, _PATIENCE) for _ in range(of_loop.parties)),
            *(compute.run(f"bench-{i}", of_compute.wait, _PATIENCE) for i in range(of_compute.parties)),
        )

    return routes
