// Calls tools of an MCP server by the official SDK: node call.mjs URL '[["tool", {arguments}], ...]'.
// Prints a JSON list of what each call returned or, as a string, threw.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, calls] = process.argv.slice(2);
const client = new Client({ name: "tests", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.listTools(); // from now on the client checks results against the output schemas
const found = [];
for (const [name, given] of JSON.parse(calls)) {
  found.push(await client.callTool({ name, arguments: given }).catch(String));
}
console.log(JSON.stringify(found));
await client.close();
