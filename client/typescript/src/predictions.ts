import type { components } from "./schema.js";

type Schemas = components["schemas"];

/** Your own answer for the time when the service is away. Wager never learns from it. */
export interface DefaultPrediction {
  prediction_id: null;
  model: string;
  label: string | null;
  labels: null;
  propensity: null;
  slots: DefaultSlot[] | null;
  is_default: true;
}

export interface DefaultSlot {
  prediction_id: null;
  label: string;
  propensity: null;
}

export type Prediction = (Schemas["PredictAnswer"] & { is_default: false }) | DefaultPrediction;

/** A prediction, one of its slots, or the id of either. */
export type Predicted = string | { prediction_id: string | null };

/** `correct`, the true label or labels, or both; or only `reward`. */
export type Outcome = Omit<Schemas["FeedbackRequest"], "prediction_id">;

export type FeedbackItem = Schemas["FeedbackRequest"];

/** The result of feedback or an activation for a default answer, which is not sent. */
export interface Ignored {
  prediction_id: null;
  status: "ignored";
}

export const IGNORED: Ignored = { prediction_id: null, status: "ignored" };

/** Convert a label, or with `top` the labels in order. */
export function defaultPrediction(model: string, given: string | readonly string[]): DefaultPrediction {
  const [label, slots] = typeof given === "string" ? [given, null] : [null, given.map(defaultSlot)];
  return { prediction_id: null, model, label, labels: null, propensity: null, slots, is_default: true };
}

function defaultSlot(label: string): DefaultSlot {
  return { prediction_id: null, label, propensity: null };
}

/** Return the id of a prediction; null for a default answer. Throws `TypeError` for anything else. */
export function idOf(prediction: Predicted): string | null {
  const id: unknown = typeof prediction === "string" ? prediction : prediction?.prediction_id;
  if (id === null || typeof id === "string") return id;
  throw new TypeError(`prediction: got ${String(prediction)}; must be a prediction, a slot, or the id of one`);
}

/** Return a new id. `crypto.randomUUID` does not exist in pages without HTTPS. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Encode a body. Throws `RangeError` for NaN and infinity, which would become null. */
export function encode(body: unknown): string {
  return JSON.stringify(body, (name, value: unknown) => {
    if (typeof value !== "number" || Number.isFinite(value)) return value;
    throw new RangeError(`${name}: got ${value}; must be finite`);
  });
}
