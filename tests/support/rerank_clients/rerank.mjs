// Ranks documents by Vercel's AI SDK with its provider of Cohere: node rerank.mjs BASE_URL KEY QUERY '["text", ...]'.
// Prints a JSON list of [index, score, text], best first.
import { createCohere } from "@ai-sdk/cohere";
import { rerank } from "ai";

const [baseURL, apiKey, query, documents] = process.argv.slice(2);
const model = createCohere({ baseURL, apiKey }).reranking("any");
const { ranking } = await rerank({ model, query, documents: JSON.parse(documents), topN: 3 });
console.log(JSON.stringify(ranking.map((one) => [one.originalIndex, one.score, one.document])));
