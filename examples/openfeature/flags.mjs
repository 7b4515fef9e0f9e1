// Learns which of three pages each country's visitors like, through OpenFeature alone:
//   npm ci --prefix examples/openfeature
//   node examples/openfeature/flags.mjs [URL] [VISITORS]
// WAGER_API_KEY has the service's key, if it needs one.

import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OpenFeature } from "@openfeature/server-sdk";

const mostUsers = 10_000; // maximum predictions that wait for an event

/** An OFREP provider whose `track` sends feedback to Wager: `flags` has the flag of each event. */
export class WagerProvider extends OFREPProvider {
  latest = new Map(); // the id of the last prediction of each flag and targeting key, the oldest first
  sent = Promise.resolve(); // rejected if feedback was refused

  constructor(baseUrl, flags, key) {
    const headers = key === undefined ? [] : [["Authorization", `Bearer ${key}`]];
    super({ baseUrl, headers });
    Object.assign(this, { baseUrl, flags, headers });
    this.hooks = [{ after: ({ flagKey, context }, details) => this.note(flagKey, context, details.flagMetadata) }];
  }

  note(flag, context, { predictionId }) {
    const place = JSON.stringify([flag, context.targetingKey]);
    this.latest.delete(place);
    this.latest.set(place, predictionId);
    if (this.latest.size > mostUsers) this.latest.delete(this.latest.keys().next().value);
  }

  /** The value of an event is the reward, from 0 to 1; without a value, the reward is 1. A prediction has one reward:
   * that of its first event. */
  track(event, context, { value = 1 } = {}) {
    const place = JSON.stringify([this.flags[event], context.targetingKey]);
    const predictionId = this.latest.get(place);
    if (predictionId === undefined) return;
    this.latest.delete(place);
    const body = JSON.stringify({ prediction_id: predictionId, reward: value });
    const headers = [...this.headers, ["Content-Type", "application/json"]];
    const sent = fetch(`${this.baseUrl}/feedback`, { method: "POST", headers, body }).then(counted);
    this.sent = Promise.all([this.sent, sent]);
  }
}

async function counted(response) {
  if (response.status !== 409) await accepted(response); // an earlier event gave the prediction another reward
}

async function accepted(response) {
  if (!response.ok) throw new Error(await response.text());
}

const [url = "http://127.0.0.1:8000", visitors = "400"] = process.argv.slice(2);
const liked = { FR: "photos", DE: "table", US: "video" };
const flag = `page-${crypto.randomUUID().slice(0, 8)}`;
const provider = new WagerProvider(url, { read: flag }, process.env.WAGER_API_KEY);
const definition = { name: flag, labels: Object.values(liked), features: { kind: "named" } };
const headers = [...provider.headers, ["Content-Type", "application/json"]];
await fetch(`${url}/models`, { method: "POST", headers, body: JSON.stringify(definition) }).then(accepted);

await OpenFeature.setProviderAndWait(provider);
const client = OpenFeature.getClient();
const likes = [];
for (let visitor = 0; visitor < Number(visitors); visitor++) {
  const country = Object.keys(liked)[Math.floor(Math.random() * 3)];
  const context = { targetingKey: `visitor-${visitor}`, country };
  const page = await client.getStringDetails(flag, "table", context);
  likes.push(page.value === liked[country]);
  client.track("read", context, { value: Number(likes.at(-1)) });
  await provider.sent;
}
const quarter = Math.max(1, Math.floor(likes.length / 4));
for (let number = 1; number <= 4; number++) {
  const share = likes.slice((number - 1) * quarter, number * quarter).filter(Boolean).length / quarter;
  console.log(`quarter ${number}: ${Math.round(100 * share)}% of the visitors liked their page`);
}
