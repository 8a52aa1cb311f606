// The protocol's messages, as far as this client writes and reads them, and how they become bytes.
//
// Names are those of the .proto files in camel case. 64-bit integers are read as decimal text and written
// as numbers or text; enums are their names.
import { join } from "node:path";

import { loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";

type Int = number | string;

export interface WireTensor {
  dtype: string;
  shape: Int[];
  data?: Uint8Array;
  chunked?: Record<string, never>;
  /** Of a message that was read: which of the two it has. */
  content?: "data" | "chunked" | "shared";
}

export interface WireCall {
  op: string;
  operandCount: number;
  resultCount: number;
  attributes: WireAttribute[];
}

/** The value of an attribute: one of the fields of the protocol's Attribute, or none. */
export interface WireAttributeValue {
  intValue?: string;
  floatValue?: number;
  boolValue?: boolean;
  stringValue?: string;
  dtypeValue?: string;
  intsValue?: { values: string[] };
  intListsValue?: { lists: { values: string[] }[] };
  indexValue?: { items: WireIndexItem[] };
}

export interface WireAttribute extends WireAttributeValue {
  name: string;
}

export interface WireIndexItem {
  at?: string;
  slice?: { start?: string; stop?: string; step?: string };
  mark?: string;
}

export interface WireBlock {
  inputCount: number;
  calls: WireCall[];
  steps: number[];
  operands: number[];
}

export interface SessionRef {
  id: Uint8Array;
  epoch: Uint8Array;
}

interface Operand {
  tensorIndex: number;
}

export interface Question {
  values?: number[];
  pullback?: { loss: number; cotangents: Operand[]; wrt?: { nodes: number[] } };
  hvp?: {
    loss: number;
    directions: { tangents: { leaf: number; tangent: Operand }[] }[];
    wrt?: { nodes: number[] };
  };
}

export interface ExecuteRequest extends Question {
  session: SessionRef;
  seq: number;
  digest: Uint8Array;
  block?: { hash: Uint8Array; block?: Uint8Array; baseId: number; inputs: number[] };
  release: number[];
  options?: { memoryLimit: number; leaseSeconds: number; device: string };
  maxResponseBytes: number;
  tensors: WireTensor[];
}

export interface WireFailure {
  node: Int;
  reason: string;
  message: string;
  metadata: Record<string, string>;
  dependants: Int[];
}

export interface Limits {
  maxMessageBytes: Int;
  leaseSeconds: number;
}

export interface ExecuteResponse {
  epoch: Uint8Array;
  failures: WireFailure[];
  questionFailure: WireFailure | null;
  values: number[];
  lossValue: number;
  sets: { nodes: Int[]; gradients: number[]; hvps: number[] }[];
  limits: Limits | null;
  tensors: WireTensor[];
}

export interface Chunk {
  crc32c: number;
  data: Uint8Array;
}

export interface StreamRequest {
  header?: ExecuteRequest;
  chunk?: Chunk;
}

export interface StreamResponse {
  header?: ExecuteResponse;
  chunk?: Chunk;
}

interface Codec<T> {
  serialize(message: T): Buffer;
  deserialize(bytes: Buffer): T;
}

const definitions = loadSync(["backhaul_proto/v1/service.proto", "status.proto"], {
  includeDirs: [join(__dirname, "proto")],
  longs: String,
  enums: String,
  arrays: true,
  objects: true,
  defaults: true,
  oneofs: true,
});

const codec = <T>(name: string): Codec<T> =>
  definitions[name] as unknown as Codec<T> & MessageTypeDefinition<object, object>;

export const blockCodec = codec<WireBlock>("backhaul.v1.Block");

export const statusCodec = codec<{
  code: number;
  message: string;
  details: { typeUrl: string; value: Buffer }[];
}>("google.rpc.Status");

export const errorInfoCodec = codec<{
  reason: string;
  domain: string;
  metadata: Record<string, string>;
}>("google.rpc.ErrorInfo");

export const retryInfoCodec = codec<{ retryDelay: { seconds: Int; nanos: number } | null }>(
  "google.rpc.RetryInfo",
);

const loaded = loadPackageDefinition(definitions) as unknown as {
  backhaul: { v1: { BackhaulService: ServiceClientConstructor } };
};

/** The generic stub. */
export const BackhaulService = loaded.backhaul.v1.BackhaulService;
