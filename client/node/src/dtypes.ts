// Element types, and the typed arrays that hold them.

/** The name of an element type. */
export type DType =
  | "bool"
  | "int8"
  | "int16"
  | "int32"
  | "int64"
  | "uint8"
  | "uint16"
  | "uint32"
  | "uint64"
  | "float32"
  | "float64"
  | "complex64"
  | "complex128";

/** Elements of an array. */
export type TypedArray =
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

type Constructor = new (buffer: ArrayBufferLike) => TypedArray;

/** How elements of a type are held. */
export interface Layout {
  readonly make: Constructor;
  /** Bytes of an entry of the typed array. */
  readonly entry: number;
  /** Entries for each element: 2 (real, imaginary) where complex. */
  readonly entries: number;
}

const layout = (make: Constructor & { BYTES_PER_ELEMENT: number }, entries = 1): Layout => ({
  make,
  entry: make.BYTES_PER_ELEMENT,
  entries,
});

export const LAYOUTS: Readonly<Record<DType, Layout>> = {
  bool: layout(Uint8Array),
  int8: layout(Int8Array),
  int16: layout(Int16Array),
  int32: layout(Int32Array),
  int64: layout(BigInt64Array),
  uint8: layout(Uint8Array),
  uint16: layout(Uint16Array),
  uint32: layout(Uint32Array),
  uint64: layout(BigUint64Array),
  float32: layout(Float32Array),
  float64: layout(Float64Array),
  complex64: layout(Float32Array, 2),
  complex128: layout(Float64Array, 2),
};

/** The type that a typed array has when none is named: never bool or complex, which share their arrays. */
export function dtypeOf(data: TypedArray): DType {
  for (const [name, { make }] of Object.entries(LAYOUTS)) {
    if (name !== "bool" && data instanceof make) return name as DType;
  }
  throw new TypeError(`${Object.prototype.toString.call(data)} is no typed array that travels`);
}

/** The type's name in the protocol. */
export const wireName = (dtype: DType): string => `DATA_TYPE_${dtype.toUpperCase()}`;

/** The type of a name in the protocol. */
export const fromWireName = (name: string): DType =>
  name.replace("DATA_TYPE_", "").toLowerCase() as DType;
