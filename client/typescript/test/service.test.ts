import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, test } from "node:test";

import { FeedbackQueue, NoAnswerError, ProblemError, Wager } from "../src/index.js";

const baseUrl = process.env["WAGER_BASE_URL"];
const timeout = 60_000; // of a busy machine

const name = () => `ts-${crypto.randomUUID()}`;
const closing: (() => void)[] = [];
after(() => closing.forEach((close) => close()));

/** Start a proxy of the service. `spoil` may spoil an answer of the service, and then returns true. */
async function proxy(
  spoil: (answer: ServerResponse, request: IncomingMessage, body: string) => boolean,
): Promise<string> {
  const server = createServer(async (request, answer) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const { method = "GET", headers, url } = request;
    const passed = { "Content-Type": headers["content-type"] ?? "" };
    const real = await fetch(`${baseUrl}${url}`, {
      method,
      headers: passed,
      body: method === "GET" ? null : Buffer.concat(parts),
    });
    const body = await real.text();
    if (spoil(answer, request, body)) return;
    answer.writeHead(real.status, { "Content-Type": real.headers.get("Content-Type") ?? "" }).end(body);
  });
  closing.push(() => (server.closeAllConnections(), server.close()));
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function rounds(wager: Wager, model: string): Promise<number> {
  return (await wager.api.GET("/models/{name}", { params: { path: { name: model } } })).data!.rounds_seen;
}

describe("with a service", { skip: baseUrl ? false : "WAGER_BASE_URL is not set" }, () => {
  const wager = new Wager({ baseUrl: baseUrl ?? "", timeout });

  async function create(definition: object = {}): Promise<string> {
    const model = name();
    await wager.createModel({ name: model, labels: ["a", "b"], features: { kind: "named" }, ...definition });
    return model;
  }

  test("a model learns", async () => {
    const model = await create();
    await wager.createModel({ name: model, labels: ["a", "b"] }, { existOk: true });
    const prediction = await wager.predict(model, { hour: 9 }, { include_distribution: true });
    assert.ok(!prediction.is_default && prediction.distribution);
    assert.equal((await wager.feedback(prediction, { correct: true })).status, "recorded");
    assert.equal((await wager.feedback(prediction, { correct: true })).status, "duplicate");
    assert.equal(await rounds(wager, model), 1);
  });

  test("a prediction that nobody saw waits for its activation", async () => {
    const model = await create();
    const prediction = await wager.predict(model, {}, { activated: false });
    await assert.rejects(
      wager.feedback(prediction, { correct: true }),
      (error: ProblemError) => error.slug === "not-activated",
    );
    assert.equal((await wager.activate(prediction)).status, "activated");
    assert.equal((await wager.feedback(prediction, { correct: true })).status, "recorded");
  });

  test("refusals say why", async () => {
    const error = await wager.predict("no-such-model").catch((error: unknown) => error);
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.status, error.slug, error.field], [404, "model-not-found", "model"]);
    assert.ok(error.requestId);
  });

  test("a lost answer is asked for again, and is the same", async () => {
    const model = await create();
    const answers: any[] = [];
    const url = await proxy(
      (answer, { url }, body) => url === "/predict" && answers.push(body) === 1 && !!answer.destroy(),
    );
    const { is_default, ...prediction } = await new Wager({ baseUrl: url, timeout }).predict(model, {});
    assert.deepEqual(
      answers.map((answer) => JSON.parse(answer)),
      [prediction, prediction],
    );
  });

  test("an answer that ends in its middle is lost", async () => {
    const model = await create();
    let lost = 0;
    const url = await proxy((answer, { url }) => {
      if (url !== "/predict" || lost++ > 0) return false;
      answer.writeHead(200, { "Content-Type": "application/json", "Content-Length": "500" });
      answer.write('{"prediction_id":', () => answer.destroy());
      return true;
    });
    assert.ok((await new Wager({ baseUrl: url, timeout }).predict(model, {})).prediction_id);
    assert.equal(lost, 2);
  });

  test("a model is not created twice after a lost answer", async () => {
    let asked = 0;
    const url = await proxy((answer) => asked++ >= 0 && !!answer.destroy());
    const model = name();
    await assert.rejects(
      new Wager({ baseUrl: url, timeout }).createModel({ name: model, labels: ["a", "b"] }),
      NoAnswerError,
    );
    assert.equal(asked, 1);
    assert.equal(await rounds(wager, model), 0);
  });

  test("2,000 items of two queues are 2,000 rounds, though answers are lost", async () => {
    const model = await create();
    let requests = 0;
    const url = await proxy((answer) => requests++ % 3 === 0 && !!answer.destroy());
    const shaky = new Wager({ baseUrl: url, timeout });
    const queues = [new FeedbackQueue(shaky), new FeedbackQueue(shaky)];
    const items = Array.from({ length: 1_000 }, () => ({ context: {} }));
    for (const queue of queues) {
      for (const each of await wager.predictBatch(model, items)) {
        assert.ok("prediction_id" in each);
        queue.put(each, { correct: true });
      }
    }
    queues[0]!.put(`${model}:unknown`, { correct: true });
    const reports = await Promise.all(queues.map((queue) => queue.close(timeout)));
    assert.deepEqual(
      reports.map((report) => report.recorded + report.duplicates),
      [1_000, 1_000],
    );
    assert.deepEqual(
      reports.map((report) => [report.expired, report.pending]),
      [
        [1, 0],
        [0, 0],
      ],
    );
    assert.equal(await rounds(wager, model), 2_000);
  });
});

test("without a service, the default answers", async () => {
  const away = new Wager({ baseUrl: "http://127.0.0.1:1", maxRetries: 1, backoff: 1 });
  await assert.rejects(away.predict("m"), NoAnswerError);
  assert.equal((await away.predict("m", {}, { default: "a" })).label, "a");
});
