// node serve_gguf.mjs MODEL.gguf NAME PORT: a chat model on the CPU as an OpenAI-compatible server, one request at a time.
// Needs node-llama-cpp 3.21.1 beside it (npm i node-llama-cpp@3.21.1). THREADS is the number of threads, 2 by default.
import http from "node:http";
import {getLlama, LlamaChatSession} from "node-llama-cpp";
const [path, name, port] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never", maxThreads: 2});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: 12288, threads: Number(process.env.THREADS ?? 2)});
let turn = Promise.resolve();
async function chat(body) {
  const sequence = context.getSequence();
  const system = body.messages.filter((m) => m.role === "system").map((m) => m.content).join("\n\n");
  const user = body.messages.filter((m) => m.role !== "system").map((m) => m.content).join("\n\n");
  const schema = body.response_format?.json_schema?.schema;
  const grammar = schema && (await llama.createGrammarForJsonSchema(schema));
  const session = new LlamaChatSession({contextSequence: sequence, systemPrompt: system || undefined});
  const before = sequence.tokenMeter.getState();
  const found = await session.promptWithMeta(user, {temperature: body.temperature ?? 0, maxTokens: body.max_tokens, grammar});
  const used = sequence.tokenMeter.diff(before);
  session.dispose();
  await sequence.clearHistory(); sequence.dispose();
  const usage = {prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens};
  usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
  const finish = found.stopReason === "maxTokens" ? "length" : "stop";
  return {id: "chat", object: "chat.completion", created: 0, model: name, usage,
    choices: [{index: 0, finish_reason: finish, message: {role: "assistant", content: found.responseText}}]};
}
http.createServer(async (request, response) => {
  const parts = []; for await (const part of request) parts.push(part);
  const body = JSON.parse(Buffer.concat(parts).toString() || "{}");
  const answer = (turn = turn.catch(() => 0).then(() => chat(body)));
  try { response.end(JSON.stringify(await answer)); }
  catch (error) { console.error(error); response.statusCode = 500; response.end(JSON.stringify({error: {message: String(error)}})); }
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
