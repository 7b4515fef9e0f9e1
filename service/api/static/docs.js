// Shows openapi.json. The addresses are relative, so that the page works under any path of a proxy.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  validatorUrl: null, // the default would send the description to a host of others
});
