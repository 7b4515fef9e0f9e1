// Evaluates flags with the providers of Node and of browsers, and prints what they answer as JSON:
//   node tests/client/providers.mjs URL FLAG UNKNOWN

import { createRequire } from "node:module";

const require = createRequire(new URL("../../examples/openfeature/", import.meta.url));
const { OpenFeature } = require("@openfeature/server-sdk");
const { OFREPProvider } = require("@openfeature/ofrep-provider");
const web = require("@openfeature/web-sdk").OpenFeature;
const { OFREPWebProvider } = require("@openfeature/ofrep-web-provider");

const [baseUrl, flag, unknown] = process.argv.slice(2);
const context = { targetingKey: "user", country: "FR", tags: ["new"] };

await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl }));
const client = OpenFeature.getClient();
const server = {
  first: await client.getObjectDetails(flag, {}, context),
  again: await client.getObjectDetails(flag, {}, context),
  wrongType: await client.getStringDetails(flag, "default", context),
  noKey: await client.getObjectDetails(flag, {}, {}),
  wrongContext: await client.getObjectDetails(flag, {}, { ...context, tags: [[1]] }),
  unknown: await client.getStringDetails(unknown, "default", context),
};

const statuses = [];
const provider = new OFREPWebProvider({
  baseUrl,
  cacheMode: "disabled",
  pollInterval: 100,
  fetchImplementation: async (...request) => {
    const response = await fetch(...request);
    statuses.push(response.status);
    return response;
  },
});
await web.setContext(context);
await web.setProviderAndWait(provider);
const first = web.getClient().getObjectDetails(flag, {});
while (statuses.length < 3) await new Promise((resolve) => setTimeout(resolve, 20));
const again = web.getClient().getObjectDetails(flag, {});
const absent = web.getClient().getStringDetails(unknown, "default");
await web.close();
console.log(JSON.stringify({ server, web: { statuses: statuses.slice(0, 3), first, again, unknown: absent } }));
