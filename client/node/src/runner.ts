// The runner of the conformance kit: a case a line on standard input, its answer on standard output.
//
// node dist/runner.js --target HOST:PORT [--token TOKEN] [--ca FILE]
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import {
  type AttributeInput,
  connect,
  type Connection,
  type DType,
  NdArray,
  type Tape,
  type Tensor,
  BackhaulError,
  dtype,
  index,
  type IndexEntry,
  slice,
} from "./index";

/** Small, so that small cases take several chunks. */
const CHUNK_BYTES = 1 << 16;

interface TensorJson {
  dtype: DType;
  shape: number[];
  data: string;
}

type IndexItemJson =
  | { at: string }
  | { mark: string }
  | { slice: { start: string | null; stop: string | null; step: string | null } };

interface AttributeJson {
  int?: string;
  float?: string;
  bool?: boolean;
  string?: string;
  dtype?: DType;
  ints?: string[];
  int_lists?: string[][];
  index?: IndexItemJson[];
}

interface Case {
  name: string;
  sources: { kind: "leaf" | "constant"; value: TensorJson; tangent?: TensorJson | null }[];
  calls: {
    op: string;
    operands: number[];
    attributes: Record<string, AttributeJson>;
    results: number;
  }[];
  ask: {
    values: number[];
    pullback?: { loss: number; wrt: number[]; cotangent?: TensorJson | null } | null;
    hvp?: { loss: number; wrt: number[]; tangents: { of: number; value: TensorJson }[] } | null;
  };
  chunked: boolean;
  split: boolean;
}

const arrayOf = (tensor: TensorJson): NdArray =>
  NdArray.fromBytes(tensor.dtype, tensor.shape, Buffer.from(tensor.data, "base64"));

const jsonOf = (array: NdArray): TensorJson => ({
  dtype: array.dtype,
  shape: [...array.shape],
  data: Buffer.from(array.bytes()).toString("base64"),
});

function attributeOf(given: AttributeJson): AttributeInput {
  if (given.int !== undefined) return BigInt(given.int);
  if (given.float !== undefined) return { floatValue: floatOf(given.float) };
  if (given.bool !== undefined) return given.bool;
  if (given.string !== undefined) return given.string;
  if (given.dtype !== undefined) return dtype(given.dtype);
  if (given.ints !== undefined) return given.ints.map(BigInt);
  // Told apart from a list of integers though it may be empty.
  if (given.int_lists !== undefined) {
    return { intListsValue: { lists: given.int_lists.map((values) => ({ values })) } };
  }
  if (given.index !== undefined) return index(...given.index.map(indexEntryOf));
  return {};
}

function floatOf(text: string): number {
  const infinite = /^(-?)inf$/.exec(text);
  return infinite ? Number(`${infinite[1]}Infinity`) : Number(text);
}

function indexEntryOf(item: IndexItemJson): IndexEntry {
  if ("at" in item) return BigInt(item.at);
  if ("mark" in item) return { mark: `INDEX_MARK_${item.mark}` };
  const part = (text: string | null) => (text === null ? undefined : BigInt(text));
  return slice(part(item.slice.start), part(item.slice.stop), part(item.slice.step));
}

async function answerOf(tape: Tape, given: Case): Promise<object> {
  const nodes: Tensor[] = given.sources.map((source) =>
    source.kind === "constant"
      ? tape.constant(arrayOf(source.value))
      : tape.leaf(arrayOf(source.value), source.tangent ? { tangent: arrayOf(source.tangent) } : {}),
  );
  const at = (number: number): Tensor => {
    const node = nodes[number];
    if (node === undefined) throw new Error(`the case ${given.name} has no node ${number}`);
    return node;
  };
  for (const [position, call] of given.calls.entries()) {
    if (given.split && position > 0) await tape.flush();
    const attributes = Object.fromEntries(
      Object.entries(call.attributes).map(([name, value]) => [name, attributeOf(value)]),
    );
    nodes.push(...tape.applyMany(call.op, call.operands.map(at), attributes, call.results));
  }
  const { values, pullback, hvp } = given.ask;
  const found = values.length > 0 ? await tape.values(...values.map(at)) : [];
  await tape.flush(); // where no value was asked
  const answer: Record<string, unknown> = { values: found.map(jsonOf) };
  if (pullback) {
    const wrt = pullback.wrt.map(at);
    const cotangent = pullback.cotangent ? { cotangent: arrayOf(pullback.cotangent) } : {};
    const result = await tape.pullback(at(pullback.loss), { wrt, ...cotangent });
    answer["pullback"] = {
      value: jsonOf(result.value),
      gradients: wrt.map((each) => jsonOf(result.gradient(each))),
    };
  }
  if (hvp) {
    const wrt = hvp.wrt.map(at);
    const tangents = hvp.tangents.map(({ of, value }) => [at(of), arrayOf(value)] as const);
    const direction = tangents.length > 0 ? { tangents } : {};
    const result = await tape.hvp(at(hvp.loss), { wrt, ...direction });
    answer["hvp"] = {
      value: jsonOf(result.value),
      gradients: wrt.map((each) => jsonOf(result.gradient(each))),
      products: wrt.map((each) => jsonOf(result.product(each))),
    };
  }
  return answer;
}

async function lineOf(connection: Connection, given: Case): Promise<string> {
  const tape = connection.tape({
    streaming: given.chunked ? "always" : "auto",
    chunkBytes: CHUNK_BYTES,
  });
  let answer: object;
  try {
    answer = await answerOf(tape, given);
  } catch (error) {
    if (!(error instanceof BackhaulError)) throw error;
    const { reason, code, details } = error;
    answer = { error: { reason, code, details } };
  } finally {
    await tape.close();
  }
  return JSON.stringify({ name: given.name, ...answer });
}

async function main(): Promise<void> {
  const { values: options } = parseArgs({
    options: { target: { type: "string" }, token: { type: "string" }, ca: { type: "string" } },
  });
  const connection = connect(options.target, {
    token: options.token ?? "",
    timeout: 30,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${await lineOf(connection, JSON.parse(line) as Case)}\n`);
  }
  await connection.close();
}

void main();
