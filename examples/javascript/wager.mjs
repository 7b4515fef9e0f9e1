// A small client of Wager for JavaScript: fetch only, no dependencies. It runs in Node 18+, Deno, Bun and browsers.
// In a browser, call your own backend instead of Wager: see docs/calling-from-a-browser.md.

export class WagerProblem extends Error {
  constructor(status, body) {
    super(`${status} ${body.type ?? ""}: ${body.detail ?? body.title ?? ""}`);
    this.status = status;
    this.slug = String(body.type ?? "").replace("urn:wager:problem:", "");
    this.field = body.field ?? null;
    this.requestId = body.request_id ?? null;
  }
}

export class Wager {
  // timeout: milliseconds for a whole call, with its retries.
  constructor({ baseUrl = "http://127.0.0.1:8000", apiKey = null, timeout = 10_000, maxRetries = 2 } = {}) {
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.headers = { "Content-Type": "application/json" };
    if (apiKey) this.headers.Authorization = `Bearer ${apiKey}`;
    this.timeout = timeout;
    this.maxRetries = maxRetries;
  }

  createModel(definition) {
    return this.#call("POST", "/models", definition, 0); // a repeat after a lost answer would be refused
  }

  // The id exists before the first attempt, so that a repeat returns the stored prediction.
  // defaultLabel: the answer while the service is away; it has no id, and is never learned.
  async predict(model, context, { defaultLabel = null, ...options } = {}) {
    const body = { model, context, prediction_id: crypto.randomUUID(), ...options };
    try {
      return await this.#call("POST", "/predict", body, this.maxRetries);
    } catch (error) {
      if (defaultLabel === null || !isAway(error)) throw error;
      return { prediction_id: null, model, label: defaultLabel, propensity: null, isDefault: true };
    }
  }

  // outcome: {correct}, {reward} or {true_label}. A repeat is answered as a duplicate.
  async feedback(prediction, outcome) {
    if (prediction.prediction_id === null) return { status: "ignored" };
    return this.#call("POST", "/feedback", { prediction_id: prediction.prediction_id, ...outcome }, this.maxRetries);
  }

  async #call(method, path, body, retries) {
    const deadline = AbortSignal.timeout(this.timeout);
    for (let attempt = 0; ; attempt++) {
      try {
        const options = { method, headers: this.headers, body: JSON.stringify(body), signal: deadline };
        const answer = await fetch(this.baseUrl + path, options);
        const content = await answer.json().catch(() => ({}));
        if (answer.ok) return content;
        const problem = new WagerProblem(answer.status, content);
        problem.retryAfter = Number(answer.headers.get("Retry-After") ?? 0);
        throw problem;
      } catch (error) {
        if (!isAway(error) || deadline.aborted || attempt >= retries) throw error;
        const wait = Math.max(1000 * (error.retryAfter ?? 0), 100 * 2 ** attempt * (0.5 + Math.random()));
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }
}

// Whether a later attempt may succeed. Network errors of fetch are TypeErrors; its timeout is a DOMException.
function isAway(error) {
  if (error instanceof WagerProblem) return [408, 429, 500, 502, 503, 504, 507].includes(error.status);
  return error instanceof TypeError || error.name === "TimeoutError";
}
