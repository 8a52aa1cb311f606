// Arrays as the program has them: a typed array, a shape, an element type.
import { endianness } from "node:os";

import { type DType, dtypeOf, fromWireName, LAYOUTS, type TypedArray, wireName } from "./dtypes";
import { BackhaulError } from "./errors";
import type { WireTensor } from "./messages";

/** Numbers in nested lists, as `[[1, 2], [3, 4]]`. */
export type Nested = number | readonly Nested[];

/** What is taken where an array is needed. Plain numbers become float64, typed arrays have one axis. */
export type ArrayInput = NdArray | TypedArray | Nested;

/** An array: its elements in C order (last axis fastest), complex ones as (real, imaginary) pairs. */
export class NdArray {
  readonly shape: readonly number[];
  readonly dtype: DType;

  /**
   * @param data the elements; not copied, so leave them unchanged until they were sent.
   * @param shape sizes of the axes; left out: one axis. `[]` is an array of one element without axes.
   * @param dtype left out: that of the typed array. "bool" goes with a Uint8Array of 0 and 1, "complex64"
   *   with a Float32Array, "complex128" with a Float64Array.
   * @throws BackhaulError MALFORMED_REQUEST, where they do not fit together.
   */
  constructor(
    readonly data: TypedArray,
    shape?: readonly number[],
    dtype?: DType,
  ) {
    this.dtype = dtype ?? dtypeOf(data);
    const layout = LAYOUTS[this.dtype];
    if (layout === undefined || !(data instanceof layout.make)) {
      throw malformed(`The dtype ${this.dtype} does not go with a ${data.constructor.name}.`, {});
    }
    this.shape = [...(shape ?? [data.length / layout.entries])];
    const needed = elements(this.shape) * layout.entries * layout.entry;
    if (needed !== data.byteLength) {
      throw malformed(
        `An array of dtype ${this.dtype} and shape [${this.shape}] takes ${needed} bytes, ` +
          `and ${data.byteLength} were given. Correct the shape or the data.`,
        { expected: `${needed}`, actual: `${data.byteLength}` },
      );
    }
  }

  /** The array of what was given. */
  static from(input: ArrayInput): NdArray {
    if (input instanceof NdArray) return input;
    if (ArrayBuffer.isView(input)) return new NdArray(input as TypedArray);
    const shape: number[] = [];
    for (let at = input as Nested; typeof at !== "number"; at = at[0] as Nested) {
      shape.push(at.length);
      if (at.length === 0) break;
    }
    const flat: number[] = [];
    flatten(input as Nested, shape, 0, flat);
    return new NdArray(Float64Array.from(flat), shape);
  }

  /** The array of little-endian bytes, which are copied. */
  static fromBytes(dtype: DType, shape: readonly number[], bytes: Uint8Array): NdArray {
    const layout = LAYOUTS[dtype];
    if (bytes.byteLength % layout.entry !== 0) {
      throw malformed(`${bytes.byteLength} bytes are no whole number of ${dtype}.`, {});
    }
    // A view of a message stands at any address, a typed array at multiples of its entries.
    const copy = ordered(new Uint8Array(bytes), layout.entry);
    return new NdArray(new layout.make(copy.buffer), shape, dtype);
  }

  /** The elements as little-endian bytes, without a copy where the machine is little-endian. */
  bytes(): Uint8Array {
    const { buffer, byteOffset, byteLength } = this.data;
    return ordered(new Uint8Array(buffer, byteOffset, byteLength), LAYOUTS[this.dtype].entry);
  }

  /**
   * The only element.
   * @throws BackhaulError INVALID_VALUE, where there are several or it is complex.
   */
  item(): number | bigint {
    const [only] = this.data;
    if (only === undefined || this.data.length > 1) {
      throw new BackhaulError(
        `item() takes an array of one real element; this one has dtype ${this.dtype} and shape ` +
          `[${this.shape}]. Read its data instead.`,
        { reason: "INVALID_VALUE", code: "INVALID_ARGUMENT" },
      );
    }
    return only;
  }

  /** The elements in nested lists; a complex element is a list [real, imaginary]. */
  toNested(): unknown {
    const pair = LAYOUTS[this.dtype].entries;
    const shape = pair === 1 ? this.shape : [...this.shape, pair];
    let at = 0;
    const build = (axis: number): unknown =>
      axis === shape.length
        ? this.data[at++]
        : Array.from({ length: shape[axis] as number }, () => build(axis + 1));
    return build(0);
  }
}

/** A tensor as it travels. */
export const toWire = (array: NdArray): WireTensor => ({
  dtype: wireName(array.dtype),
  shape: [...array.shape],
  data: array.bytes(),
});

/** The array of a tensor that came. */
export const fromWire = (tensor: WireTensor): NdArray =>
  NdArray.fromBytes(fromWireName(tensor.dtype), tensor.shape.map(Number), tensor.data ?? new Uint8Array());

/** The bytes in the other order of each entry where the machine is big-endian; else as they are. */
export function ordered(bytes: Uint8Array, entry: number, machine = endianness()): Uint8Array {
  if (machine === "LE" || entry === 1) return bytes;
  const swapped = new Uint8Array(bytes);
  for (let at = 0; at < swapped.length; at += entry) swapped.subarray(at, at + entry).reverse();
  return swapped;
}

function elements(shape: readonly number[]): number {
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw malformed(`[${shape}] is no shape: sizes are integers from 0 on.`, {});
  }
  return shape.reduce((product, size) => product * size, 1);
}

function flatten(input: Nested, shape: readonly number[], axis: number, into: number[]): void {
  if (typeof input === "number" ? axis !== shape.length : input.length !== shape[axis]) {
    throw malformed(`Nested lists of unequal lengths are no array; the first ones say [${shape}].`, {});
  }
  if (typeof input === "number") into.push(input);
  else for (const each of input) flatten(each, shape, axis + 1, into);
}

const malformed = (message: string, details: Record<string, string>): BackhaulError =>
  new BackhaulError(message, { reason: "MALFORMED_REQUEST", code: "INVALID_ARGUMENT", details });
