// Chooses headlines with Wager, and shows that it finds the one that readers click:
//   npm ci --prefix client/typescript
//   node examples/javascript/headlines.mjs [URL] [ROUNDS]

import { FeedbackQueue, ProblemError, Wager } from "../../client/typescript/dist/index.js"; // elsewhere: "wager-client"

const [url = "http://127.0.0.1:8000", rounds = "300"] = process.argv.slice(2);
const wager = new Wager({ baseUrl: url, timeout: 60_000 });
const model = `js-headlines-${crypto.randomUUID().slice(0, 8)}`;
const clickRate = { plain: 0.1, question: 0.6, number: 0.2 };

await wager.createModel({ name: model, labels: Object.keys(clickRate), features: { kind: "named" } });
const shown = { plain: 0, question: 0, number: 0 };
for (let i = 0; i < Number(rounds); i++) {
  const prediction = await wager.predict(model, { hour: i % 24 });
  if (i >= Number(rounds) / 2) shown[prediction.label]++;
  await wager.feedback(prediction, { correct: Math.random() < clickRate[prediction.label] });
}
console.log(`shown in the second half: ${JSON.stringify(shown)}`);

try {
  await wager.predict(model, 3, { default: "plain" });
} catch (error) {
  if (!(error instanceof ProblemError)) throw error;
  console.log(`a wrong context: ${error.slug} in ${error.field}`);
}

const away = new Wager({ baseUrl: "http://127.0.0.1:1", maxRetries: 1 });
const queue = new FeedbackQueue(away);
const answer = await away.predict(model, {}, { default: "plain" });
queue.put(answer, { correct: true }); // nothing is learned from your own answer
console.log(`without a service: ${answer.label}, ${(await queue.close()).ignored} ignored`);
