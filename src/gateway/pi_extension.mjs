// Asks fia before every request which old tool results to shorten in it. The session file keeps them whole.
//
// Where to ask stands in FIA_PRUNING_URL. When fia does not answer, the request goes out as it is.
import { request } from "node:http";

const TIMEOUT_MS = 30_000;

// node:http, because fetch may be set up for a proxy.
function ask(url, value) {
  return new Promise((resolve, reject) => {
    const body = Buffer.from(JSON.stringify(value));
    const headers = { "content-type": "application/json", "content-length": body.length };
    const asked = request(url, { method: "POST", headers, timeout: TIMEOUT_MS }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        try {
          if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
          resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")));
        } catch (error) {
          reject(error);
        }
      });
    });
    asked.on("timeout", () => asked.destroy(new Error("no answer in time")));
    asked.on("error", reject);
    asked.end(body);
  });
}

export default function (pi) {
  const base = process.env.FIA_PRUNING_URL;
  if (!base) return;
  let told = false;
  const lost = (error) => {
    if (!told) console.error(`fia: tool results are not shortened: ${error.message}`);
    told = true;
  };

  pi.on("context", async (event, ctx) => {
    const query = new URLSearchParams();
    const window = ctx?.model?.contextWindow;
    if (Number.isSafeInteger(window)) query.set("window", String(window));
    if (process.env.PI_CACHE_RETENTION === "long") query.set("cache", "long");
    try {
      const { replacements } = await ask(`${base}/context?${query}`, event.messages);
      if (replacements.length === 0) return;
      const messages = event.messages.slice();
      for (const { index, text } of replacements) {
        messages[index] = { ...messages[index], content: [{ type: "text", text }] };
      }
      return { messages };
    } catch (error) {
      lost(error);
    }
  });

  pi.on("message_end", async (event) => {
    const { role, stopReason, usage } = event.message;
    if (role !== "assistant" || stopReason === "error" || stopReason === "aborted") return;
    const tokens = (usage?.input ?? 0) + (usage?.cacheRead ?? 0) + (usage?.cacheWrite ?? 0);
    try {
      await ask(`${base}/answered`, { tokens });
    } catch (error) {
      lost(error);
    }
  });
}
