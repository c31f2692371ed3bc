"use strict";

const form = document.getElementById("key");
const said = document.getElementById("said");

async function show(key) {
  const response = await fetch("openapi.json", { headers: key ? { "X-API-Key": key } : {} });
  const unauthorized = response.status === 401;
  form.hidden = !unauthorized;
  if (unauthorized) said.textContent = key ? "That is not the key of this server." : "";
  else said.textContent = response.ok ? "" : `openapi.json: ${response.status} ${await response.text()}`;
  if (!response.ok) return;
  const ui = SwaggerUIBundle({
    spec: await response.json(),
    dom_id: "#swagger-ui",
    layout: "BaseLayout",
    deepLinking: true,
    showExtensions: true,
    showCommonExtensions: true,
    validatorUrl: null,
    onComplete: () => key && ui.preauthorizeApiKey("header", key),
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  show(document.getElementById("value").value);
});
show("");
