import createClient, { type Client } from "openapi-fetch";

import { type Environment, realEnvironment } from "./environment.js";
import { isAway, ProblemError } from "./errors.js";
import { defaultPrediction, encode, idOf, IGNORED, type Ignored, newId } from "./predictions.js";
import type { Outcome, Predicted, Prediction } from "./predictions.js";
import type { components, paths } from "./schema.js";
import { type Send, sender, type Sending } from "./sending.js";

type Schemas = components["schemas"];

export interface Options {
  /** By default `WAGER_BASE_URL`, otherwise http://127.0.0.1:8000. */
  baseUrl?: string;
  /** By default `WAGER_API_KEY`, otherwise none. */
  apiKey?: string;
  /** Milliseconds for a whole call, with its retries and waits. */
  timeout?: number;
  /** Attempts after the first one. */
  maxRetries?: number;
  /** Mean milliseconds before the second attempt. The mean doubles with each attempt, up to 5 seconds. */
  backoff?: number;
  /** Your own `fetch`, clock, timers or random numbers. */
  environment?: Partial<Environment>;
}

type Context = Schemas["PredictRequest"]["context"];

type BatchAnswer = Schemas["PredictBatchAnswer"]["predictions"];

export type PredictOptions = Omit<Schemas["PredictRequest"], "model" | "context"> & {
  /** The answer if the service is away: a label, or with `top` labels in order. */
  default?: string | readonly string[];
  signal?: AbortSignal;
};

/** A client of a Wager service. */
export class Wager {
  /** Every operation of the service. GET and HEAD are repeated; others only if they were certainly not executed. */
  readonly api: Client<paths>;
  /** Pass as `fetch` to an operation of `api` whose repeat is harmless. */
  readonly repeatable: Send;
  readonly sending: Sending;
  readonly #ofPrediction: Send;
  readonly #ofPredictions: Send;
  /** Retries, answers by a caller's default, and feedback and activations for such answers. */
  readonly counts = { retries: 0, defaults: 0, ignored: 0 };

  constructor({ baseUrl, apiKey, timeout = 10_000, maxRetries = 2, backoff = 100, environment }: Options = {}) {
    const settings = variables();
    const url = baseUrl ?? (settings.WAGER_BASE_URL || "http://127.0.0.1:8000");
    const key = apiKey ?? settings.WAGER_API_KEY;
    const onRetry = () => this.counts.retries++;
    this.sending = { environment: { ...realEnvironment, ...environment }, timeout, maxRetries, backoff, onRetry };
    this.repeatable = sender(this.sending, true);
    this.#ofPrediction = sender(this.sending, true, "prediction_id");
    this.#ofPredictions = sender(this.sending, true, "predictions");
    this.api = createClient<paths>({
      baseUrl: url.replace(/\/+$/, ""),
      headers: key ? { Authorization: `Bearer ${key}` } : {},
      fetch: sender(this.sending, false),
      bodySerializer: encode,
    });
  }

  /** Create a model. With `existOk`, a model of this name is left as it is, whatever its definition. */
  async createModel(definition: Schemas["ModelDefinition"], { existOk = false } = {}): Promise<void> {
    try {
      await this.api.POST("/models", { body: definition, ...(existOk && { fetch: this.repeatable }) });
    } catch (error) {
      if (!existOk || !(error instanceof ProblemError) || error.slug !== "model-exists") throw error;
    }
  }

  /** Return the model's answer for a context; or `default`, if the service is away. */
  async predict(model: string, context?: Context, options: PredictOptions = {}): Promise<Prediction> {
    const { default: fallback, signal, ...fields } = options;
    const given = context === undefined ? {} : { context };
    const body = { model, ...given, ...fields, prediction_id: fields.prediction_id ?? newId() };
    try {
      const { data } = await this.api.POST("/predict", { body, fetch: this.#ofPrediction, signal: signal ?? null });
      return { ...data!, is_default: false };
    } catch (error) {
      if (fallback === undefined || !isAway(error)) throw error;
    }
    this.counts.defaults++;
    return defaultPrediction(model, fallback);
  }

  /** Return a prediction or a problem for each item, in order. Items have the fields of `/predict` without `model`. */
  async predictBatch(model: string, items: readonly Schemas["PredictItem"][]): Promise<BatchAnswer> {
    const body = { model, items: items.map((item) => ({ ...item, prediction_id: item.prediction_id ?? newId() })) };
    return (await this.api.POST("/predict/batch", { body, fetch: this.#ofPredictions })).data!.predictions;
  }

  /** Send feedback. A repeat has the status `duplicate`. Feedback for a default answer is `ignored`. */
  async feedback(prediction: Predicted, outcome: Outcome): Promise<Schemas["FeedbackAnswer"] | Ignored> {
    const prediction_id = idOf(prediction);
    if (prediction_id === null) return this.#ignored();
    return (await this.api.POST("/feedback", { body: { prediction_id, ...outcome }, fetch: this.#ofPrediction })).data!;
  }

  /** Activate a prediction made with `activated: false`, when its answer is shown. A repeat changes nothing. */
  async activate(prediction: Predicted): Promise<Schemas["ActivateAnswer"] | Ignored> {
    const prediction_id = idOf(prediction);
    if (prediction_id === null) return this.#ignored();
    return (await this.api.POST("/activate", { body: { prediction_id }, fetch: this.#ofPrediction })).data!;
  }

  #ignored(): Ignored {
    this.counts.ignored++;
    return IGNORED;
  }
}

/** Return the environment's variables; none in a browser. */
function variables(): Record<string, string | undefined> {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
}
