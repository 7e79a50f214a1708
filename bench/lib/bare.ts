// The floor that CPU figures are compared with: `node bench/lib/bare.ts <base url> <calls>` reads a request's body from
// stdin and makes that call again and again with the same SDK and nothing around it; prints CPU milliseconds a call.
import { text } from 'node:stream/consumers';
import OpenAI from 'openai';
import { z } from 'zod';

const requestShape = z.looseObject({
  model: z.string(),
  messages: z.array(z.object({ role: z.literal(['system', 'user']), content: z.string() })),
});

const [baseURL = '', calls = '0'] = process.argv.slice(2);
const { model, messages, ...rest } = requestShape.parse(JSON.parse(await text(process.stdin)));
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });

async function call(): Promise<void> {
  const stream = await client.chat.completions.create({ ...rest, model, messages, stream: true });
  let answer = '';
  for await (const part of stream) answer += part.choices[0]?.delta.content ?? '';
  if (!answer.includes('noon')) throw new Error(`not answered: ${answer}`);
}

for (let n = 0; n < 300; n++) await call();
const before = process.cpuUsage();
for (let n = 0; n < Number(calls); n++) await call();
const used = process.cpuUsage(before);
const cpuMs = (used.user + used.system) / 1000 / Number(calls);
process.stdout.write(`${JSON.stringify({ cpuMs })}\n`);
