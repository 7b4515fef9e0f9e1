"""The commands of the store over the Redis protocol that activate predictions and close expired ones."""

from collections.abc import Sequence

from service.errors import ModelNotFoundError
from service.prediction_id import PredictionId
from service.store import keys
from service.store.closing_store import Closed
from service.store.feedback import FeedbackStatus
from service.store.redis.codecs.feedback_codec import activation_status, encoded_token
from service.store.redis.commands import Commands
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import record_script, script
from service.store.stored_models import ModelKey

_ACTIVATE = record_script("counts", "book_open", "blocks", "activate")
_CLOSE_EXPIRED = record_script("counts", "book_open", "blocks", "close_expired")
_CLAIM_DUE = script("claim_due")
_PUT_OFF = script("put_off")


class ClosingCommands(Commands):
    """The methods of `service.store.redis.redis_store.RedisStore` that activate and close predictions."""

    @translating_errors
    async def activate(self, prediction: PredictionId, incarnation: str, now: float) -> FeedbackStatus:
        """See `Store.activate`."""
        name, block, token = prediction
        named = [*keys.of_blocks(name, incarnation), keys.block(name, incarnation, block)]
        args = [incarnation, repr(now), encoded_token(token)]
        letter = await self._run(_ACTIVATE, named, args, self._confirmed)
        if letter is None:
            raise ModelNotFoundError(f"there is no model {name!r}", "prediction_id")
        return activation_status(letter)

    @translating_errors
    async def watch_closing(self, models: Sequence[ModelKey]) -> None:
        """See `Store.watch_closing`."""
        if models:
            await self._enlist(keys.CLOSING, "NX", *(part for key in models for part in (0, keys.member(key))))

    @translating_errors
    async def unwatch_closing(self, key: ModelKey) -> None:
        """Undo `watch_closing` for one model."""
        await self._call("ZREM", keys.CLOSING, keys.member(key))

    @translating_errors
    async def claim_due(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """See `Store.claim_due`."""
        members = await self._run(_CLAIM_DUE, [keys.CLOSING], [repr(offset), limit, repr(seconds)])
        return [keys.of_member(member) for member in members]

    @translating_errors
    async def close_expired(self, key: ModelKey, offset: float, most_blocks: int) -> Closed:
        """See `Store.close_expired`."""
        upcoming, newest, due = b"", 0, list[bytes]()
        for _ in range(2):  # the first call names the blocks
            named = [*keys.of_blocks(*key), *(keys.block(*key, block.decode()) for block in due)]
            reply = await self._run(_CLOSE_EXPIRED, named, [key.incarnation, repr(offset), most_blocks, *due])
            if reply is None:
                break
            upcoming, number, due = reply
            newest = max(newest, number)
            if not due:
                break
        # Any moment that a call returns stays valid: predictions made since expire at least one window later.
        if reply is None or not upcoming:
            await self.unwatch_closing(key)
        elif due:  # it queues again after the other models that are due
            await self.put_off_closing(key, offset, 0.0)
        else:
            await self._enlist(keys.CLOSING, "XX", upcoming, keys.member(key))
        return Closed(newest, bool(due))

    @translating_errors
    async def put_off_closing(self, key: ModelKey, offset: float, seconds: float) -> None:
        """See `Store.put_off_closing`."""
        await self._run(_PUT_OFF, [keys.CLOSING], [keys.member(key), repr(offset), repr(seconds)])
