// A message's tensors in chunks: what ExecuteStream sends and receives. See STREAMS in service.proto.
import { crc32c } from "./crc32c";
import { fromWireName, LAYOUTS } from "./dtypes";
import { BackhaulError } from "./errors";
import type {
  Chunk,
  ExecuteRequest,
  ExecuteResponse,
  StreamRequest,
  StreamResponse,
  WireTensor,
} from "./messages";

/** Data of a chunk: where gRPC is fastest. */
export const CHUNK_BYTES = 1 << 20;

/** The messages of a request: its header, then the elements of its tensors. */
export function* outgoing(request: ExecuteRequest, chunkBytes = CHUNK_BYTES): Generator<StreamRequest> {
  const tensors = request.tensors.map(({ dtype, shape }) => ({ dtype, shape, chunked: {} }));
  yield { header: { ...request, tensors } };
  let parts: Uint8Array[] = [];
  let room = chunkBytes;
  for (const { data = new Uint8Array() } of request.tensors) {
    for (let at = 0; at < data.length; ) {
      const part = data.subarray(at, at + room);
      parts.push(part);
      at += part.length;
      room -= part.length;
      if (room === 0) {
        yield { chunk: chunkOf(parts) };
        parts = [];
        room = chunkBytes;
      }
    }
  }
  if (parts.length > 0) yield { chunk: chunkOf(parts) };
}

function chunkOf(parts: readonly Uint8Array[]): Chunk {
  const [first, ...more] = parts;
  const data = first !== undefined && more.length === 0 ? first : Buffer.concat(parts);
  return { crc32c: crc32c(data), data };
}

/** Puts the messages of an answer together. */
export class Incoming {
  #header: ExecuteResponse | undefined;
  #empty: Uint8Array[] = [];
  #filled = 0;
  #chunks = 0;

  /** @throws BackhaulError CHUNK_CHECKSUM; INTERNAL for an answer that does not keep to the protocol. */
  add(part: StreamResponse): void {
    if (part.header) this.#begin(part.header);
    else if (part.chunk) this.#fill(part.chunk);
  }

  /** The answer, when all of it has come: each tensor has its data. */
  finish(): ExecuteResponse {
    if (this.#header === undefined) throw unexpected("it ended without a header");
    if (this.#empty.length > 0) throw unexpected("it ended before its last chunk");
    return this.#header;
  }

  #begin(header: ExecuteResponse): void {
    if (this.#header !== undefined) throw unexpected("it has two headers");
    this.#header = header;
    for (const tensor of header.tensors) {
      if (tensor.content !== "chunked") continue;
      tensor.data = new Uint8Array(byteSize(tensor));
      if (tensor.data.length > 0) this.#empty.push(tensor.data);
    }
  }

  #fill({ data, crc32c: expected }: Chunk): void {
    const actual = crc32c(data);
    if (actual !== expected) {
      throw new BackhaulError(
        "A chunk of the answer is not what the server sent: its checksum is wrong. If this goes on, " +
          "something on the way between changes data.",
        { reason: "CHUNK_CHECKSUM", code: "DATA_LOSS", details: { chunk: `${this.#chunks}` } },
      );
    }
    this.#chunks++;
    for (let at = 0; at < data.length; ) {
      const [into] = this.#empty;
      if (into === undefined) throw unexpected("it has more bytes than it declared");
      const part = data.subarray(at, at + into.length - this.#filled);
      into.set(part, this.#filled);
      at += part.length;
      this.#filled += part.length;
      if (this.#filled === into.length) {
        this.#empty.shift();
        this.#filled = 0;
      }
    }
  }
}

function byteSize({ dtype, shape }: WireTensor): number {
  const { entry, entries } = LAYOUTS[fromWireName(dtype)];
  return shape.reduce<number>((bytes, size) => bytes * Number(size), entry * entries);
}

const unexpected = (why: string): BackhaulError =>
  new BackhaulError(`The server's stream does not keep to the protocol: ${why}.`, {
    reason: "INTERNAL",
    code: "INTERNAL",
  });
