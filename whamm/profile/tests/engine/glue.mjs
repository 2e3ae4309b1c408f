// The glue and a module in node: what the module told, as JSON.
import fs from "node:fs";
import { createRequire } from "node:module";

const [glue, all, file] = process.argv.slice(2);
const require = createRequire(import.meta.url);
require(glue);
require(all);
process.stdout.write(JSON.stringify(await globalThis.instantiateAll(fs.readFileSync(file))));
