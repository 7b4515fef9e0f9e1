export type { Environment } from "./environment.js";
export { isAway, NoAnswerError, ProblemError } from "./errors.js";
export type { OnDrop, Reason, Report } from "./outbox.js";
export type { DefaultPrediction, FeedbackItem, Ignored, Outcome, Predicted, Prediction } from "./predictions.js";
export { FeedbackQueue, type QueueOptions } from "./queue.js";
export type { components, paths } from "./schema.js";
export { type Options, type PredictOptions, Wager } from "./wager.js";
