"""The command `wager memory`: lists the models that use the most memory of the store."""

import json
from typing import Annotated

import typer

from service.commands.options import use_store
from service.errors import StoreCorruptError
from service.store.redis.open_store import OpenStore
from service.store.values import ModelMemory, StoreLoad
from toolkit.remote import AsJson

_MOST_MODELS = 10_000_000
_ROW = "{:<24} {:>15} {:>15} {:>13} {:>13} {:>13} {:>15} {:>11}"


def memory(
    most: Annotated[int, typer.Option(min=1, help="Number of models to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the models that use the most memory of the store, with the bytes that each kind of their data uses.

    Reads the store of WAGER_STORE_URL, or of WAGER_DATA_DIR, whether or not the service is running. Logs are estimated
    from samples. The rest of the memory is overhead of the store, and predictions that have received feedback or whose
    model is deleted.
    """
    load, found = use_store(_measure, create=False)
    largest = sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))[:most]
    if as_json:
        models = [{"model": name, "bytes": sum(each), **each._asdict()} for name, each in largest]
        typer.echo(json.dumps({"used": load.memory, "limit": load.memory_limit, "models": models}))
        return
    typer.echo(_ROW.format("model", "bytes", *ModelMemory._fields))
    for name, each in largest:
        typer.echo(_ROW.format(name, *(f"{size:,}" for size in (sum(each), *each))))
    typer.echo(f"{len(found):,} models; the store uses {load.memory:,} bytes of {load.memory_limit:,}")


async def _measure(opened: OpenStore) -> tuple[StoreLoad, dict[str, ModelMemory]]:
    found = {}
    for name in await opened.store.list_names(_MOST_MODELS):
        try:
            measured = await opened.store.measure(name)
        except StoreCorruptError as error:
            typer.echo(f"wager: {error.detail}", err=True)
            continue
        if measured is not None:
            found[name] = measured
    return await opened.store.read_load(), found
