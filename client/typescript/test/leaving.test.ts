import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { afterEach, beforeEach, test } from "node:test";

import { FeedbackQueue, Wager } from "../src/index.js";
import { type Answer, cut, record, silence, Virtual } from "./virtual.js";

const LIMIT = 64 * 1024;

let window: EventTarget;
let document: EventTarget & { visibilityState: string };

beforeEach(() => {
  window = new EventTarget();
  document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  Object.assign(globalThis, { window, document });
});

afterEach(() => {
  Object.assign(globalThis, { window: undefined, document: undefined });
});

function change(state: "hidden" | "visible"): void {
  document.visibilityState = state;
  document.dispatchEvent(new Event("visibilitychange"));
}

function leave(): void {
  change("hidden");
  window.dispatchEvent(new Event("pagehide"));
}

function queueOf(...answers: Answer[]) {
  const virtual = new Virtual(...answers);
  const queue = new FeedbackQueue(new Wager({ baseUrl: "http://wager", environment: virtual }));
  return { virtual, queue, keptAlive: () => virtual.sent.filter((sent) => sent.keepalive) };
}

function putAll(queue: FeedbackQueue, count: number, true_label = "sports"): void {
  for (let i = 0; i < count; i++) queue.put(`front-page:${i}`, { true_label });
}

const items = (sent: { body: any }[]) => sent.flatMap(({ body }) => body.feedback);
const bytes = (sent: { body: any }) => new TextEncoder().encode(JSON.stringify(sent.body)).length;

test("what has no answer is sent when the page is left, before the handler returns, and once", async () => {
  const { virtual, queue, keptAlive } = queueOf(silence, record);
  putAll(queue, 10);
  await virtual.settle();
  putAll(queue, 3);
  leave();
  assert.equal(keptAlive().length, 1);
  await virtual.settle();
  assert.equal(items(keptAlive()).length, 13);
  assert.deepEqual([queue.report().recorded, queue.report().pending], [13, 0]);
});

test("a page that is left without being hidden first sends, too", async () => {
  const { virtual, keptAlive, queue } = queueOf(record);
  putAll(queue, 3);
  window.dispatchEvent(new Event("pagehide"));
  await virtual.settle();
  assert.equal(items(keptAlive()).length, 3);
});

test("a page that only comes back sends nothing", async () => {
  const { virtual, queue, keptAlive } = queueOf(silence);
  putAll(queue, 10);
  change("visible");
  await virtual.settle();
  assert.deepEqual(keptAlive(), []);
});

for (const label of ["sports", "サッカー".repeat(50)]) {
  test(`a page has at most 64 KiB in flight, with labels of ${label.length} characters`, async () => {
    const { virtual, queue, keptAlive } = queueOf(silence);
    putAll(queue, 5_000, label);
    leave();
    leave();
    await virtual.settle();
    const sum = keptAlive().reduce((total, sent) => total + bytes(sent), 0);
    assert.ok(sum <= LIMIT && sum > LIMIT - 2_000, `${sum}`);
  });
}

test("what was sent with keepalive and not confirmed is sent again, and counts once", async () => {
  const { virtual, queue, keptAlive } = queueOf(cut, cut, record);
  putAll(queue, 300);
  leave();
  await virtual.wait(60_000);
  assert.equal(keptAlive().length, 2);
  assert.ok(items(virtual.sent).length >= 600);
  assert.equal(queue.report().recorded, 300);
});

test("what failed with keepalive is sent again when the page is left again", async () => {
  const { virtual, queue, keptAlive } = queueOf(silence, cut, cut, cut, cut, record);
  putAll(queue, 700);
  await virtual.settle();
  leave();
  await virtual.settle();
  leave();
  await virtual.settle();
  assert.equal(items(keptAlive()).length, 1_400);
  assert.equal(queue.report().recorded, 700);
});

test("an answer to each of two requests with an item counts once", async () => {
  let answer = () => {};
  const late: Answer = (sent, signal) => new Promise((resolve) => (answer = () => resolve(record(sent, signal))));
  const { virtual, queue } = queueOf(late, record);
  putAll(queue, 10);
  await virtual.settle();
  leave();
  await virtual.settle();
  answer();
  await virtual.settle();
  assert.deepEqual([queue.report().recorded, queue.report().pending], [10, 0]);
});

test("two queues of a page both send", async () => {
  const both = [queueOf(record), queueOf(record)];
  for (const { queue } of both) putAll(queue, 3);
  leave();
  for (const { virtual, keptAlive } of both) {
    await virtual.settle();
    assert.equal(items(keptAlive()).length, 3);
  }
});

test("a closed queue does not listen", async () => {
  const { virtual, queue } = queueOf(record);
  await virtual.run(queue.close());
  assert.deepEqual([...getEventListeners(window, "pagehide"), ...getEventListeners(document, "visibilitychange")], []);
});

test("an item that is too large for a page that ends holds up no other", async () => {
  const { virtual, queue, keptAlive } = queueOf(silence, record);
  putAll(queue, 1, "x".repeat(LIMIT + 1));
  putAll(queue, 300);
  await virtual.settle();
  leave();
  await virtual.settle();
  assert.equal(items(keptAlive()).length, 300);
});
