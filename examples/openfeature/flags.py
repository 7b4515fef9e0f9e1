"""Learns which of three pages each country's visitors like, through OpenFeature alone.

    python examples/openfeature/flags.py --url http://127.0.0.1:8000

It needs `openfeature-sdk`, `openfeature-provider-ofrep` and the Python client of Wager. WAGER_API_KEY has the service's
key, if it needs one.
"""

import argparse
import os
import random
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urljoin
from uuid import uuid4

from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import FlagEvaluationDetails, FlagValueType
from openfeature.hook import Hook, HookContext, HookHints
from openfeature.track import TrackingEventDetails

from wager_client import Wager

_MOST_USERS = 10_000  # maximum predictions that wait for an event


class WagerProvider(OFREPProvider):
    """An OFREP provider whose `track` sends feedback to Wager.

    Args:
        events: the flag of each event. The value of an event is the reward of the flag's last value for its targeting
            key, from 0 to 1; without a value, the reward is 1.
    """

    def __init__(self, base_url: str, events: Mapping[str, str], key: str | None = None) -> None:
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        super().__init__(base_url, headers_factory=lambda: self._headers)
        self._events, self._latest = events, _Latest()

    def get_provider_hooks(self) -> list[Hook]:
        """Return the hook that notes predictions."""
        return [self._latest]

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Send feedback for an event. Without a noted prediction, do nothing; raise HTTPError if it is refused.

        A prediction has one reward: that of its first event.
        """
        flag = self._events.get(tracking_event_name)
        context = evaluation_context or EvaluationContext()
        prediction = self._latest.ids.pop((flag, context.targeting_key), None)
        if prediction is None:
            return
        value = None if tracking_event_details is None else tracking_event_details.value
        sent = self.session.post(
            urljoin(self.base_url, "/feedback"),
            json={"prediction_id": prediction, "reward": 1.0 if value is None else value},
            headers=self._headers,
            timeout=self.timeout,
        )
        if sent.status_code != HTTPStatus.CONFLICT:  # an earlier event gave the prediction another reward
            sent.raise_for_status()


class _Latest(Hook):
    """Notes the id of the last prediction of each flag and targeting key, for the latest 10,000 of them."""

    def __init__(self) -> None:
        self.ids: OrderedDict[tuple[str | None, str | None], str] = OrderedDict()

    def after(self, hook_context: HookContext, details: FlagEvaluationDetails[FlagValueType], hints: HookHints) -> None:
        place = hook_context.flag_key, hook_context.evaluation_context.targeting_key
        self.ids[place] = str(details.flag_metadata["predictionId"])
        self.ids.move_to_end(place)
        if len(self.ids) > _MOST_USERS:
            self.ids.popitem(last=False)


_LIKED = {"FR": "photos", "DE": "table", "US": "video"}


def run(url: str, visitors: int, seed: int) -> list[float]:
    """Show pages to visitors, and return the share of them, by quarters, who liked theirs."""
    flag = f"page-{uuid4().hex[:8]}"
    with Wager(url, timeout=60.0) as wager:
        wager.create_model(flag, labels=sorted(_LIKED.values()), features={"kind": "named"})
    api.set_provider(WagerProvider(url, {"read": flag}, os.environ.get("WAGER_API_KEY")))
    client, chance, likes = api.get_client(), random.Random(seed), list[bool]()
    for visitor in range(visitors):
        country = chance.choice(list(_LIKED))
        context = EvaluationContext(f"visitor-{visitor}", {"country": country})
        page = client.get_string_details(flag, "table", context)
        likes.append(page.value == _LIKED[country])
        client.track("read", context, TrackingEventDetails(value=float(likes[-1])))
    quarter = max(1, visitors // 4)
    api.shutdown()
    return [sum(likes[start : start + quarter]) / quarter for start in range(0, quarter * 4, quarter)]


def main() -> None:
    """Run the example with the options of the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--url", default="http://127.0.0.1:8000")
    options.add_argument("--visitors", type=int, default=400)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    for number, share in enumerate(run(given.url, given.visitors, given.seed), 1):
        print(f"quarter {number}: {share:.0%} of the visitors liked their page")


if __name__ == "__main__":
    main()
