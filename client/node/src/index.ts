// What the package offers.
export { ARRAY, type AttributeInput, type Attributes, dtype, type IndexEntry, index, slice } from "./attributes";
export { connect, Connection } from "./connection";
export type { DType, TypedArray } from "./dtypes";
export { BackhaulError } from "./errors";
export { Gradients, HessianProducts } from "./gradients";
export { type ArrayInput, NdArray, type Nested } from "./ndarray";
export type { SessionOptions } from "./session";
export { Tape } from "./tape";
export type { ConnectOptions } from "./target";
export { Tensor } from "./tensor";
