import assert from "node:assert/strict";
import { test } from "node:test";

import { Incoming, outgoing } from "../chunks";
import { crc32c } from "../crc32c";
import { BackhaulError } from "../errors";
import type { ExecuteRequest, ExecuteResponse, WireTensor } from "../messages";

const request = (...data: Uint8Array[]): ExecuteRequest => ({
  session: { id: new Uint8Array(16), epoch: new Uint8Array() },
  seq: 1,
  digest: new Uint8Array(),
  release: [],
  maxResponseBytes: 0,
  tensors: data.map((each) => ({ dtype: "DATA_TYPE_UINT8", shape: [each.length], data: each })),
});

const answer = (...tensors: WireTensor[]): ExecuteResponse => ({
  epoch: new Uint8Array(),
  failures: [],
  questionFailure: null,
  values: [],
  lossValue: 0,
  sets: [],
  limits: null,
  tensors,
});

const chunked = (size: number): WireTensor => ({
  dtype: "DATA_TYPE_UINT8",
  shape: [`${size}`],
  chunked: {},
  content: "chunked",
});

const chunk = (...data: number[]) => ({
  chunk: { crc32c: crc32c(Uint8Array.from(data)), data: Uint8Array.from(data) },
});

const reason = (expected: string) => (error: unknown) =>
  error instanceof BackhaulError && error.reason === expected;

test("tensors share chunks, and are cut where a chunk is full", () => {
  const [header, ...chunks] = outgoing(request(Uint8Array.of(1, 2, 3), new Uint8Array(), Uint8Array.of(4, 5)), 2);
  assert.deepEqual(
    header?.header?.tensors.map(({ shape, chunked, data }) => [shape, chunked, data]),
    [
      [[3], {}, undefined],
      [[0], {}, undefined],
      [[2], {}, undefined],
    ],
  );
  assert.deepEqual(
    chunks.map((each) => [...(each.chunk?.data ?? [])]),
    [[1, 2], [3, 4], [5]],
  );
  for (const each of chunks) assert.equal(each.chunk?.crc32c, crc32c(each.chunk?.data ?? new Uint8Array()));
});

test("an answer is put together from chunks that are cut anywhere", () => {
  const incoming = new Incoming();
  const inline: WireTensor = {
    dtype: "DATA_TYPE_UINT8",
    shape: ["1"],
    data: Uint8Array.of(9),
    content: "data",
  };
  incoming.add({ header: answer(chunked(3), inline, chunked(0), chunked(2)) });
  incoming.add(chunk(1, 2));
  incoming.add(chunk(3, 4, 5));
  assert.deepEqual(
    incoming.finish().tensors.map(({ data }) => [...(data ?? [])]),
    [[1, 2, 3], [9], [], [4, 5]],
  );
});

test("a chunk with another checksum is refused, by its number", () => {
  const incoming = new Incoming();
  incoming.add({ header: answer(chunked(2)) });
  incoming.add(chunk(1));
  assert.throws(
    () => incoming.add({ chunk: { crc32c: 1, data: Uint8Array.of(2) } }),
    (error) => reason("CHUNK_CHECKSUM")(error) && (error as BackhaulError).details["chunk"] === "1",
  );
});

test("more or fewer bytes than declared, and headers too few or many, are refused", () => {
  const incoming = new Incoming();
  assert.throws(() => incoming.finish(), reason("INTERNAL"));
  incoming.add({ header: answer(chunked(1)) });
  assert.throws(() => incoming.finish(), reason("INTERNAL"));
  assert.throws(() => incoming.add({ header: answer() }), reason("INTERNAL"));
  assert.throws(() => incoming.add(chunk(1, 2)), reason("INTERNAL"));
});
