// Copies the protocol's .proto files of the checkout into dist/, from where the client loads them.
import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const source = fileURLToPath(new URL("../../../proto/backhaul_proto/v1/", import.meta.url));
const target = `${here}dist/proto/backhaul_proto/v1/`;

mkdirSync(target, { recursive: true });
for (const name of readdirSync(source).filter((each) => each.endsWith(".proto"))) {
  cpSync(source + name, target + name);
}
cpSync(`${here}proto/status.proto`, `${here}dist/proto/status.proto`);
