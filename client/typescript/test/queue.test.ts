import assert from "node:assert/strict";
import { test } from "node:test";

import { FeedbackQueue, type QueueOptions, type Reason, type Report, Wager } from "../src/index.js";
import { type Answer, cut, page, problem, record, results, silence, Virtual } from "./virtual.js";

const OK = { correct: true };

function queueOf(answers: Answer[], options: QueueOptions = {}) {
  const virtual = new Virtual(...answers);
  const dropped: [string, string][] = [];
  const onDrop = (item: { prediction_id: string }, reason: Reason) =>
    void dropped.push([item.prediction_id, typeof reason === "string" ? reason : reason.slug]);
  const queue = new FeedbackQueue(new Wager({ baseUrl: "http://wager", environment: virtual }), { onDrop, ...options });
  return { virtual, queue, dropped };
}

const total = ({ lastError: _, ...counts }: Report) => Object.values(counts).reduce((sum, count) => sum + count);
const sizes = (virtual: Virtual) => virtual.sent.map((sent) => sent.body.feedback.length);
const refused = (slug: string, status: number) => ({
  type: `urn:wager:problem:${slug}`,
  title: slug,
  status,
  detail: slug,
});
const recorded = { correct: true, reward: 1, abstained: false, status: "recorded", round: 1 };

function putAll(queue: FeedbackQueue, count: number, prefix = "m:"): void {
  for (let i = 0; i < count; i++) queue.put(`${prefix}${i}`, OK);
}

test("10,000 items go in batches, one request after the other, in order", async () => {
  const { virtual, queue } = queueOf([record]);
  putAll(queue, 10_000);
  assert.ok(await virtual.run(queue.flush()));
  assert.equal(virtual.sent.length, 50);
  assert.deepEqual(
    virtual.sent.flatMap((sent) => sent.body.feedback.map((item: any) => item.prediction_id)).slice(-2),
    ["m:9998", "m:9999"],
  );
  assert.equal(queue.report().recorded, 10_000);
});

test("feedback waits while the service is away, at growing intervals", async () => {
  const { virtual, queue } = queueOf([cut, page(502), problem(503, "too-busy"), record]);
  putAll(queue, 3);
  await virtual.wait(10_000);
  assert.deepEqual(
    virtual.sent.slice(0, 4).map((sent) => sent.at),
    [0, 50, 150, 350],
  );
  assert.deepEqual(queue.report(), { ...queue.report(), recorded: 3, pending: 0, lastError: null });
});

test("the service says how long the queue waits, also while a caller waits for it", async () => {
  const { virtual, queue } = queueOf([problem(429, "rate-limited", { "Retry-After": "7" }), record]);
  putAll(queue, 3);
  assert.ok(await virtual.run(queue.flush()));
  assert.equal(virtual.time, 7_000);
  assert.deepEqual(sizes(virtual), [3, 3]);
});

test("a worker that does not answer holds the queue for five seconds", async () => {
  const { virtual, queue } = queueOf([silence, record]);
  putAll(queue, 1);
  await virtual.settle();
  putAll(queue, 1, "n:");
  await virtual.wait(5_040);
  assert.equal(virtual.sent.length, 1, "one request at a time");
  await virtual.wait(1_000);
  assert.equal(queue.report().recorded, 2);
});

test("each item of a batch succeeds, fails or waits on its own", async () => {
  const broken: Record<string, object> = {
    "m:1": refused("feedback-conflict", 409),
    "m:2": refused("prediction-expired", 404),
    "m:3": refused("unknown-label", 422),
    "m:4": refused("not-activated", 409),
    "m:5": refused("store-corrupt", 500),
    "m:6": { ...recorded, status: "duplicate" },
  };
  const { virtual, queue, dropped } = queueOf([(sent) => results(sent, (id) => broken[id] ?? recorded)]);
  putAll(queue, 8);
  queue.put({ prediction_id: null }, OK);
  await virtual.wait(60);
  assert.deepEqual(dropped, [
    ["m:1", "feedback-conflict"],
    ["m:2", "prediction-expired"],
    ["m:3", "unknown-label"],
  ]);
  delete broken["m:4"];
  await virtual.wait(1_000);
  const { lastError, ...counts } = queue.report();
  assert.match(String(lastError), /store-corrupt/);
  assert.deepEqual(counts, {
    recorded: 3,
    duplicates: 1,
    conflicts: 1,
    expired: 1,
    refused: 1,
    dropped: 0,
    ignored: 1,
    pending: 1,
  });
  assert.equal(total(queue.report()), 9);
  assert.ok(virtual.sent.length < 10);
});

for (const [name, failure, lost] of [
  ["refused", problem(422, "invalid-request"), 1],
  ["broken", page(500), 0],
] as const) {
  test(`an item that makes whole requests ${name} holds up no other`, async () => {
    const answer: Answer = (sent, signal) =>
      sent.body.feedback.some((item: any) => item.prediction_id === "m:77")
        ? failure(sent, signal)
        : record(sent, signal);
    const { virtual, queue, dropped } = queueOf([answer]);
    putAll(queue, 200);
    await virtual.wait(60_000);
    assert.equal(queue.report().recorded, 199);
    assert.equal(queue.report().refused, lost);
    assert.ok(virtual.sent.length < 60, `${virtual.sent.length}`);
    assert.equal(virtual.sent.at(-1)!.at === 0, lost === 1, "a refused request needs no wait");
    assert.deepEqual(
      dropped.map(([id]) => id),
      lost ? ["m:77"] : [],
    );
  });
}

test("a full queue drops the oldest item", async () => {
  const { virtual, queue, dropped } = queueOf([cut], { size: 3 });
  putAll(queue, 5);
  assert.deepEqual(dropped, [
    ["m:0", "full"],
    ["m:1", "full"],
  ]);
  await virtual.settle();
  assert.equal(total(queue.report()), 5);
  assert.equal(queue.report().pending, 3);
});

test("an item in flight is not dropped", async () => {
  const { virtual, queue, dropped } = queueOf([silence], { size: 1 });
  putAll(queue, 1);
  await virtual.settle();
  assert.equal(queue.put("m:new", OK), false);
  assert.deepEqual(dropped, [["m:new", "full"]]);
});

test("closing sends what waits, and drops the rest", async () => {
  const { virtual, queue, dropped } = queueOf([cut]);
  putAll(queue, 2);
  const report = await virtual.run(queue.close(1_000));
  assert.equal(virtual.time, 1_000);
  assert.ok(virtual.sent.length >= 7, "a caller who waits shortens the waits");
  assert.equal(queue.put("m:9", OK), false);
  assert.deepEqual(dropped, [
    ["m:0", "closed"],
    ["m:1", "closed"],
    ["m:9", "closed"],
  ]);
  assert.deepEqual([report.dropped, report.pending, queue.report().dropped], [2, 0, 3]);
  assert.deepEqual(await virtual.run(queue.close()), queue.report());
});

test("closing while a request is in flight ends it", async () => {
  let ended = false;
  const held: Answer = (sent, signal) => {
    signal.addEventListener("abort", () => (ended = true));
    return silence(sent, signal);
  };
  const { virtual, queue } = queueOf([held]);
  putAll(queue, 2);
  const report = await virtual.run(queue.close(1_000));
  await virtual.settle();
  assert.ok(ended);
  assert.deepEqual(queue.report(), report);
  assert.equal(report.dropped, 2);
});

test("what a callback throws stays in it", async (context) => {
  context.mock.method(console, "error", () => {});
  const { virtual, queue } = queueOf([problem(422, "invalid-request"), record], {
    onDrop() {
      throw new Error("mine");
    },
  });
  queue.put("m:0", OK);
  await virtual.wait(1_000);
  queue.put("m:1", OK);
  await virtual.wait(1_000);
  assert.deepEqual([queue.report().refused, queue.report().recorded], [1, 1]);
});

test("a wrong argument is thrown to the caller, and changes nothing", async () => {
  const { queue } = queueOf([record]);
  assert.throws(() => queue.put(undefined as never, OK), TypeError);
  assert.throws(() => queue.put("m:1", { reward: NaN }), /reward: got NaN; must be finite/);
  assert.equal(total(queue.report()), 0);
});

test("an answer with too few results is no answer", async () => {
  const short: Answer = () => new Response('{"results":[]}', { headers: { "Content-Type": "application/json" } });
  const { virtual, queue } = queueOf([short, record]);
  putAll(queue, 2);
  await virtual.settle();
  assert.match(String(queue.report().lastError), /0 results for 2 items/);
  await virtual.wait(1_000);
  assert.equal(queue.report().recorded, 2);
});

test("two queues do not share anything", async () => {
  const [one, two] = [queueOf([record]), queueOf([cut])];
  putAll(one.queue, 3);
  putAll(two.queue, 2);
  await one.virtual.wait(1_000);
  await two.virtual.wait(1_000);
  assert.deepEqual([one.queue.report().recorded, two.queue.report().pending], [3, 2]);
});

test("what is sent is what was put, whatever happens to the caller's objects", async () => {
  const { virtual, queue } = queueOf([cut, record]);
  const true_labels = ["a"];
  queue.put("m:1", { true_labels });
  await virtual.settle();
  true_labels.push("b");
  await virtual.wait(1_000);
  assert.deepEqual(
    virtual.sent.map(({ body }) => body.feedback[0].true_labels),
    [["a"], ["a"]],
  );
});

for (const options of [{ size: 0 }, { size: NaN }, { size: Infinity }, { batch: 0 }, { batch: -5 }, { batch: 1.5 }]) {
  test(`a queue refuses ${JSON.stringify(options)}`, () => {
    assert.throws(() => new FeedbackQueue(new Wager(), options), RangeError);
  });
}
