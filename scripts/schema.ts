// `npm run schema`: writes config/schema.json.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { editorSchema } from '../config/json-schema.ts';

writeFileSync(join(import.meta.dirname, '..', 'config', 'schema.json'), editorSchema());
