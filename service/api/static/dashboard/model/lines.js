// Values of labels as lines of text, such as `label = 0.5`. The value is JSON.

export const toLines = (values) => Object.entries(values ?? {}).map(([label, value]) => `${label} = ${JSON.stringify(value)}`).join("\n");

// Returns the values by label; null without any. Throws Error with the number of an invalid line.
export function fromLines(text) {
  const values = {};
  for (const [i, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    const at = line.lastIndexOf(" = ") + 1 || line.lastIndexOf("=");
    try {
      values[line.slice(0, at).trim()] = JSON.parse(line.slice(at + 1));
    } catch {
      throw new Error(`line ${i + 1} must read label = value; got ${line.trim()}`);
    }
  }
  return Object.keys(values).length ? values : null;
}
