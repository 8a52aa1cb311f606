import assert from "node:assert/strict";
import { test } from "node:test";

import { type DType, LAYOUTS } from "../dtypes";
import { BackhaulError } from "../errors";
import { fromWire, NdArray, ordered, toWire } from "../ndarray";

const refused = (reason: string) => (error: unknown) =>
  error instanceof BackhaulError && error.reason === reason && error.code === "INVALID_ARGUMENT";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

test("elements are written little-endian, in the width of their type", () => {
  const written: [NdArray, string][] = [
    [new NdArray(Uint8Array.of(1, 0), [2], "bool"), "0100"],
    [new NdArray(Int8Array.of(-1)), "ff"],
    [new NdArray(Int16Array.of(-2)), "feff"],
    [new NdArray(Int32Array.of(1)), "01000000"],
    [new NdArray(BigInt64Array.of(-(2n ** 63n))), "0000000000000080"],
    [new NdArray(Uint8Array.of(255)), "ff"],
    [new NdArray(Uint16Array.of(258)), "0201"],
    [new NdArray(Uint32Array.of(0xdeadbeef)), "efbeadde"],
    [new NdArray(BigUint64Array.of(2n ** 64n - 1n)), "ffffffffffffffff"],
    [new NdArray(Float32Array.of(-0)), "00000080"],
    [new NdArray(Float64Array.of(1)), "000000000000f03f"],
    [new NdArray(Float32Array.of(1, -1), [1], "complex64"), "0000803f000080bf"],
    [new NdArray(Float64Array.of(0, 1), [], "complex128"), "0000000000000000000000000000f03f"],
  ];
  for (const [array, bytes] of written) assert.equal(hex(array.bytes()), bytes, array.dtype);
  assert.deepEqual(new Set(written.map(([{ dtype }]) => dtype)), new Set(Object.keys(LAYOUTS)));
});

test("every type comes back from the wire with its bits, from any address", () => {
  for (const [name, { entry, entries }] of Object.entries(LAYOUTS)) {
    const message = Buffer.from(Array.from({ length: 3 + 6 * entry * entries }, (_, at) => (at * 37) % 256));
    const data = message.subarray(3); // as in a message: aligned to nothing
    const array = fromWire({ dtype: `DATA_TYPE_${name.toUpperCase()}`, shape: ["2", "3"], data });
    assert.equal(array.dtype, name);
    assert.deepEqual(array.shape, [2, 3]);
    assert.equal(array.data.length, 6 * entries);
    assert.equal(hex(toWire(array).data as Uint8Array), hex(data), name);
  }
});

test("payloads of NaN and signed zeros stay", () => {
  const bytes = Buffer.from("010000000000f87f0000000000000080", "hex");
  const array = NdArray.fromBytes("float64", [2], bytes);
  assert.ok(Object.is(array.data[1], -0));
  assert.equal(hex(array.bytes()), bytes.toString("hex"));
});

test("a view of a larger buffer is written alone", () => {
  const part = Float64Array.of(1, 2, 3, 4).subarray(1, 3);
  assert.deepEqual(NdArray.fromBytes("float64", [2], new NdArray(part).bytes()).data, Float64Array.of(2, 3));
});

test("on a big-endian machine each entry is turned", () => {
  const bytes = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  assert.deepEqual(ordered(bytes, 4, "BE"), Uint8Array.of(4, 3, 2, 1, 8, 7, 6, 5));
  assert.equal(ordered(bytes, 4, "LE"), bytes);
});

test("numbers and nested lists are float64 of their shape", () => {
  assert.deepEqual(NdArray.from(2.5), new NdArray(Float64Array.of(2.5), []));
  assert.deepEqual(NdArray.from([[1, 2, 3], [4, 5, 6]]), new NdArray(Float64Array.of(1, 2, 3, 4, 5, 6), [2, 3]));
  assert.deepEqual(NdArray.from([]), new NdArray(new Float64Array(), [0]));
  assert.deepEqual(NdArray.from([[], []]), new NdArray(new Float64Array(), [2, 0]));
  assert.equal(NdArray.from(Int16Array.of(1)).dtype, "int16");
});

test("ragged lists are refused", () => {
  for (const ragged of [[[1, 2], [3]], [[1], 2], [1, [2]]]) {
    assert.throws(() => NdArray.from(ragged), refused("MALFORMED_REQUEST"), JSON.stringify(ragged));
  }
});

test("data that do not fit shape or dtype are refused", () => {
  const data = new Float64Array(6);
  assert.throws(() => new NdArray(data, [2, 4]), refused("MALFORMED_REQUEST"));
  assert.throws(() => new NdArray(data, [-2, -3]), refused("MALFORMED_REQUEST"));
  assert.throws(() => new NdArray(data, [1.5, 4]), refused("MALFORMED_REQUEST"));
  assert.throws(() => new NdArray(data, [6], "complex64"), refused("MALFORMED_REQUEST"));
  assert.throws(() => new NdArray(data, [6], "float16" as DType), refused("MALFORMED_REQUEST"));
  assert.throws(() => NdArray.fromBytes("float64", [1], new Uint8Array(7)), refused("MALFORMED_REQUEST"));
});

test("item gives the only element, and refuses others", () => {
  assert.equal(NdArray.from(3).item(), 3);
  assert.equal(new NdArray(BigInt64Array.of(5n), [1, 1]).item(), 5n);
  assert.throws(() => NdArray.from([1, 2]).item(), refused("INVALID_VALUE"));
  assert.throws(() => NdArray.from([]).item(), refused("INVALID_VALUE"));
  assert.throws(() => new NdArray(new Float32Array(2), [], "complex64").item(), refused("INVALID_VALUE"));
});

test("nested lists follow the shape, complex elements being pairs", () => {
  assert.deepEqual(NdArray.from([[1, 2], [3, 4]]).toNested(), [[1, 2], [3, 4]]);
  assert.equal(NdArray.from(7).toNested(), 7);
  assert.deepEqual(new NdArray(Float32Array.of(1, 2, 3, 4), [2], "complex64").toNested(), [[1, 2], [3, 4]]);
});
