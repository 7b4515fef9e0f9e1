import assert from "node:assert/strict";
import { test } from "node:test";

import { isAway, NoAnswerError, type Options, ProblemError, Wager } from "../src/index.js";
import { cut, json, page, problem, silence, unsent, Virtual, type Answer } from "./virtual.js";

const answered = json(200, { prediction_id: "m:1", model: "m", label: "a", labels: null, propensity: 0.5 });

function client(answers: Answer[], options: Options = {}) {
  const virtual = new Virtual(...answers);
  return { virtual, wager: new Wager({ baseUrl: "http://wager/", environment: virtual, ...options }) };
}

const slugged = (slug: string) => (error: unknown) => error instanceof ProblemError && error.slug === slug;

for (const status of [408, 429, 500, 502, 503, 504, 507]) {
  test(`a prediction is repeated with its id after ${status}`, async () => {
    const { virtual, wager } = client([problem(status, "some"), answered]);
    const prediction = await virtual.run(wager.predict("m", { hour: 9 }));
    assert.equal(prediction.label, "a");
    const [first, second] = virtual.sent;
    assert.match(first!.body.prediction_id, /^[0-9a-f]{32}$/);
    assert.deepEqual(second!.body, first!.body);
    assert.equal(wager.counts.retries, 1);
  });
}

for (const [name, failure] of Object.entries({
  "a cut connection": cut,
  "a proxy's page": page(502),
  "a captive page": page(200),
})) {
  test(`a prediction is repeated after ${name}`, async () => {
    const { virtual, wager } = client([failure, failure, answered]);
    assert.equal((await virtual.run(wager.predict("m"))).label, "a");
    assert.deepEqual(
      virtual.sent.map((sent) => sent.at),
      [0, 100, 300],
    );
  });
}

test("the service says how long to wait", async () => {
  const { virtual, wager } = client([problem(429, "rate-limited", { "Retry-After": "3" }), answered]);
  await virtual.run(wager.predict("m"));
  assert.equal(virtual.time, 3_000);
});

test("a wait beyond the deadline is not begun", async () => {
  const { virtual, wager } = client([problem(429, "rate-limited", { "Retry-After": "30" })]);
  await assert.rejects(virtual.run(wager.predict("m")), slugged("rate-limited"));
  assert.equal(virtual.time, 0);
});

test("all attempts end at the deadline", async () => {
  for (const maxRetries of [0, 1, 2, 9]) {
    const { virtual, wager } = client([silence], { timeout: 8_000, maxRetries });
    await assert.rejects(virtual.run(wager.predict("m")), NoAnswerError);
    assert.ok(virtual.time <= 8_000, `${virtual.time}`);
    assert.ok(virtual.sent.length <= 1 + maxRetries && virtual.sent.length >= Math.min(3, 1 + maxRetries));
  }
});

test("a refusal is thrown at once, and says why", async () => {
  const refusal = {
    type: "urn:wager:problem:wrong-type",
    title: "t",
    status: 422,
    detail: "d",
    field: "context",
    request_id: "r",
  };
  const { virtual, wager } = client([json(422, refusal)]);
  const error = await virtual.run(wager.predict("m", [1], { default: "a" })).catch((error: unknown) => error);
  assert.ok(error instanceof ProblemError);
  const { status, slug, field, detail, requestId } = error;
  assert.deepEqual([status, slug, field, detail, requestId], [422, "wrong-type", "context", "d", "r"]);
  assert.equal(virtual.sent.length, 1);
});

test("a refusal that is no problem shows its beginning", async () => {
  const { virtual, wager } = client([page(403)]);
  const error = await virtual.run(wager.feedback("m:1", { correct: true })).catch((error: unknown) => error);
  assert.ok(error instanceof ProblemError && error.slug === "" && error.detail.startsWith("<html>"));
});

test("what is not idempotent is repeated only if it was certainly not executed", async () => {
  const definition = { name: "m", labels: ["a", "b"] };
  for (const failure of [cut, silence, page(502), problem(503, "store-unavailable"), problem(507, "store-full")]) {
    const { virtual, wager } = client([failure, json(201, {})]);
    await assert.rejects(virtual.run(wager.createModel(definition)), isAway);
    assert.equal(virtual.sent.length, 1);
  }
  const { virtual, wager } = client([silence]);
  await assert.rejects(virtual.run(wager.createModel(definition)), NoAnswerError);
  assert.equal(virtual.time, 10_000, "the one attempt has all the time");
  for (const failure of [unsent, problem(503, "too-busy"), problem(429, "rate-limited")]) {
    const { virtual, wager } = client([failure, json(201, {})]);
    await virtual.run(wager.createModel(definition));
    assert.equal(virtual.sent.length, 2);
  }
});

test("a model that may exist is created again after a lost answer", async () => {
  const { virtual, wager } = client([cut, problem(409, "model-exists")]);
  await virtual.run(wager.createModel({ name: "m", labels: ["a", "b"] }, { existOk: true }));
  assert.equal(virtual.sent.length, 2);
});

test("reads of any operation are repeated, and writes that the caller declares repeatable", async () => {
  const { virtual, wager } = client([cut, json(200, { models: [] }), cut, json(200, { name: "m" })]);
  assert.deepEqual((await virtual.run(wager.api.GET("/models"))).data!.models, []);
  const params = { path: { name: "m" }, header: { "if-match": '"1"' } };
  const body = { window_seconds: 60 };
  await virtual.run(wager.api.PATCH("/models/{name}", { params, body, fetch: wager.repeatable }));
  assert.deepEqual(
    virtual.sent.map((sent) => sent.path),
    ["/models", "/models", "/models/m", "/models/m"],
  );
});

test("a caller's signal ends a call, also while it waits, and no default answers", async () => {
  const reason = new Error("the user left");
  for (const answers of [[silence], [problem(503, "store-unavailable", { "Retry-After": "5" })]]) {
    const { virtual, wager } = client(answers);
    const controller = new AbortController();
    const call = wager.predict("m", {}, { default: "a", signal: controller.signal });
    call.catch(() => {});
    await virtual.settle();
    controller.abort(reason);
    await assert.rejects(call, reason);
    assert.equal(virtual.sent.length, 1);
  }
});

test("a default answers while the service is away, and nothing is learned from it", async () => {
  const { virtual, wager } = client([cut], { maxRetries: 1 });
  const one = await virtual.run(wager.predict("m", {}, { default: "a", activated: false }));
  assert.deepEqual([one.prediction_id, one.label, one.propensity, one.is_default], [null, "a", null, true]);
  const two = await virtual.run(wager.predict("m", {}, { default: ["b", "a"], top: 2 }));
  assert.deepEqual(
    two.slots!.map((slot) => slot.label),
    ["b", "a"],
  );
  assert.equal(virtual.sent.length, 4);
  assert.ok(virtual.sent.every((sent) => !("default" in sent.body)));
  assert.equal((await wager.activate(one)).status, "ignored");
  assert.equal((await wager.feedback(two.slots![0]!, { correct: true })).status, "ignored");
  assert.equal(virtual.sent.length, 4);
  assert.deepEqual(wager.counts, { retries: 2, defaults: 2, ignored: 2 });
});

test("feedback and activations are repeated, and a prediction keeps the caller's id", async () => {
  const { virtual, wager } = client([cut, answered]);
  await virtual.run(wager.predict("m", {}, { prediction_id: "mine" }));
  assert.deepEqual(
    virtual.sent.map((sent) => sent.body.prediction_id),
    ["mine", "mine"],
  );
  for (const call of [(one: Wager) => one.feedback("m:1", { reward: 0.5 }), (one: Wager) => one.activate("m:1")]) {
    const { virtual, wager } = client([cut, json(200, { prediction_id: "m:1", status: "duplicate" })]);
    assert.equal((await virtual.run<{ status: string }>(call(wager))).status, "duplicate");
  }
});

test("each item of a batch keeps its id", async () => {
  const { virtual, wager } = client([cut, json(200, { predictions: [] })]);
  await virtual.run(wager.predictBatch("m", [{ context: {} }, { context: {}, prediction_id: "mine" }]));
  const [first, second] = virtual.sent.map((sent) => sent.body.items);
  assert.deepEqual(first, second);
  assert.equal(first[1].prediction_id, "mine");
  assert.match(first[0].prediction_id, /^[0-9a-f]{32}$/);
});

test("a wrong argument is thrown before anything is sent", async () => {
  const { virtual, wager } = client([answered]);
  await assert.rejects(wager.predict("m", { age: NaN }), /age: got NaN; must be finite/);
  await assert.rejects(wager.feedback(undefined as never, { correct: true }), /prediction: got undefined/);
  assert.deepEqual(virtual.sent, []);
});

test("the key is sent, and the model comes first, where a load balancer looks for it", async () => {
  let seen: Request | undefined;
  const fetch = async (request: Request) => (seen = request.clone()) && Response.json({ prediction_id: "m:1" });
  await new Wager({ apiKey: "k", environment: { fetch } }).predict("m", { big: "x" });
  assert.equal(seen!.headers.get("Authorization"), "Bearer k");
  assert.match(await seen!.text(), /^\{"model":"m"/);
});

const raw =
  (status: number, body: string | null, type: string): Answer =>
  () =>
    new Response(body, { status, headers: { "Content-Type": type } });

for (const [name, answer] of Object.entries({
  "an empty answer": raw(200, "", "application/json"),
  "204": raw(204, null, "application/json"),
  null: raw(200, "null", "application/json"),
  "a list": raw(200, "[]", "application/json"),
  "another object": raw(200, "{}", "application/json"),
  "half an answer": raw(200, '{"prediction_id": "m', "application/json"),
  "plain text": raw(200, "OK", "text/plain"),
  "a page in capitals": raw(200, "<HTML>", "Text/HTML; charset=utf-8"),
  "an XHTML page": raw(200, "<html/>", "application/xhtml+xml"),
})) {
  test(`${name} is no answer: it is repeated, and then the default is given`, async () => {
    const { virtual, wager } = client([answer, answered]);
    assert.equal((await virtual.run(wager.predict("m"))).label, "a");
    const away = client([answer]);
    assert.equal((await away.virtual.run(away.wager.predict("m", {}, { default: "b" }))).is_default, true);
    for (const call of [away.wager.feedback("m:1", { correct: true }), away.wager.activate("m:1")]) {
      await assert.rejects(away.virtual.run<unknown>(call), NoAnswerError);
    }
    await assert.rejects(away.virtual.run(away.wager.predictBatch("m", [{}])), NoAnswerError);
  });
}

for (const [body, detail] of [
  ['{"type": 1, "title": [2]}', '{"type": 1, "title": [2]}'],
  ['{"detail": [{"msg": "field required"}]}', '{"detail": [{"msg": "field required"}]}'],
  ["[1]", "[1]"],
  ["null", "null"],
  ["", ""],
] as const) {
  test(`a refusal of another program is a refusal: ${body}`, async () => {
    const { virtual, wager } = client([raw(400, body, "application/json")]);
    await assert.rejects(
      virtual.run(wager.predict("m", {}, { default: "b" })),
      (error) => error instanceof ProblemError && error.slug === "" && error.detail === detail,
    );
    assert.equal(virtual.sent.length, 1);
  });
}

for (const [asked, waits] of [
  ["1.5", 1_500],
  ["Fri, 27 Nov 2026 00:00:05 GMT", 5_000],
  ["Fri, 27 Nov 2026 00:00:00 GMT", 100],
  ["soon", 100],
] as const) {
  test(`the service asks to wait until ${asked}`, async () => {
    const headers = { "Retry-After": asked, Date: "Fri, 27 Nov 2026 00:00:00 GMT" };
    const { virtual, wager } = client([problem(503, "store-unavailable", headers), answered]);
    await virtual.run(wager.predict("m"));
    assert.equal(virtual.time, waits);
  });
}
