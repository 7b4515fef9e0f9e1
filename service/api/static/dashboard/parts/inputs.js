// What users type, as values. An invalid entry is an error of its field.

export class InvalidEntry extends Error {
  constructor(field, message) {
    super(message);
    this.fields = { [field]: message };
  }
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export function numberOf(text, field) {
  const value = Number(text);
  if (!NUMBER.test(text.trim()) || !Number.isFinite(value)) throw new InvalidEntry(field, `must be a number, such as 0.5; got “${text}”`);
  return value;
}

export const numberOrNull = (text, field) => (text.trim() === "" ? null : numberOf(text, field));

// A share as a percentage, without the noise of binary fractions.
export const percentOf = (share) => String(+(100 * share).toFixed(10));

// A percentage as a share: `before` itself if the percentage still shows it, as it may have more digits.
export function shareOf(text, field, before = null) {
  if (before !== null && text === percentOf(before)) return before;
  return +(numberOf(text, field) / 100).toFixed(12);
}

export function jsonOf(text, field) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InvalidEntry(field, `is not JSON: ${error.message}`);
  }
}

// An object in JSON; null without text.
export function objectOrNull(text, field) {
  if (text.trim() === "") return null;
  const value = jsonOf(text, field);
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new InvalidEntry(field, "must be an object in JSON, such as {}");
  return value;
}

// Whether a text is a name, which becomes part of an address: browsers take `..` out of addresses, even as %2E%2E.
export const isName = (text) => NAME.test(text);

export function nameOf(text, field) {
  const name = text.trim();
  if (!isName(name)) throw new InvalidEntry(field, "must be 1 to 64 letters, digits, dots, hyphens or underscores, the first a letter or digit");
  return name;
}
