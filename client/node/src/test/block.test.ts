import assert from "node:assert/strict";
import { test } from "node:test";

import { toWireAttributes } from "../attributes";
import { type Step, writeBlock } from "../block";
import { blockCodec } from "../messages";
import { NdArray } from "../ndarray";

const step = (node: number, op: string, operands: number[] = [], more: Partial<Step> = {}): Step => ({
  node,
  op,
  operands,
  results: 1,
  attributes: [],
  arrays: [],
  ...more,
});

const read = (bytes: Uint8Array) => {
  const { inputCount, calls, steps, operands } = blockCodec.deserialize(Buffer.from(bytes));
  return { inputCount, calls: calls.map(({ op, resultCount }) => [op, resultCount]), steps, operands };
};

test("earlier nodes are inputs, equal calls are one", () => {
  const block = writeBlock([step(10, "add", [7, 3]), step(11, "sin", [10]), step(12, "add", [11, 3])]);
  assert.equal(block.baseId, 10);
  assert.deepEqual(block.inputs, [7, 3]);
  assert.deepEqual(read(block.bytes), {
    inputCount: 2,
    calls: [
      ["add", 1],
      ["sin", 1],
    ],
    steps: [0, 1, 0],
    operands: [0, 1, 2, 3, 1],
  });
});

test("ids that no step has stay unused", () => {
  const block = writeBlock([step(1, "leaf"), step(5, "sin", [1])]);
  assert.deepEqual(read(block.bytes), {
    inputCount: 0,
    calls: [
      ["leaf", 1],
      ["skip", 3],
      ["sin", 1],
    ],
    steps: [0, 1, 2],
    operands: [0],
  });
});

test("equal work on other nodes has the same bytes and hash", () => {
  const one = writeBlock([step(4, "sin", [2]), step(5, "cos", [4])]);
  const other = writeBlock([step(40, "sin", [31]), step(41, "cos", [40])]);
  assert.deepEqual(one.hash, other.hash);
  assert.equal(Buffer.from(one.hash).length, 32);
});

test("calls that differ in the sign of a zero or a NaN are two", () => {
  const scaled = (node: number, by: number) =>
    step(node, "clip", [1], { attributes: toWireAttributes({ low: { floatValue: by } }) });
  const { steps } = read(writeBlock([scaled(2, 0), scaled(3, -0), scaled(4, NaN), scaled(5, 0)]).bytes);
  assert.deepEqual(steps, [0, 1, 2, 0]);
});

test("arrays stand in the order of their steps", () => {
  const [a, b, c] = [NdArray.from(1), NdArray.from(2), NdArray.from(3)];
  const block = writeBlock([
    step(1, "leaf_with_tangent", [], { arrays: [a, b] }),
    step(2, "constant", [], { arrays: [c] }),
  ]);
  assert.deepEqual(block.arrays, [a, b, c]);
});
