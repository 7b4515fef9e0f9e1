"""`wager load`: load on a running installation, latencies that hide nothing, and an audit of what it recorded.

Read `plan` (what is asked for), `generator` (what one process does), `audit` and `report`. For benchmarks there
is one endpoint under load in the process that asks, with the same client::

    async with Client(Target.parse("http://127.0.0.1:8000"), connections=32) as client:
        requests = Requests("POST", "/predict", bodies)  # bytes; a fourth argument, list.append, keeps the answers
        measured, lag = await open_loop(client, requests, Pace(rate=2000, seconds=10))
        measured.latency.percentile(99.9)  # seconds, from when each request was due
        measured.offered, measured.achieved, measured.not_sent  # per second, per second, requests
        lag.percentile(99)  # seconds that the driver itself was late

        measured = await closed_loop(client, requests.encoded(client.target), connections=32)

`uvloop.run` it, which is cheaper than asyncio's own loop. More than a few thousand requests per second need several
processes: `Measured.merge` adds what they measured, `to_json` and `from_json` carry it.
"""
