// Calls over a gRPC channel.
import { Readable } from "node:stream";

import {
  type CallOptions,
  type Client,
  type ClientDuplexStream,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";

import { Incoming, outgoing } from "./chunks";
import { fromServiceError } from "./errors";
import {
  BackhaulService,
  type ExecuteRequest,
  type ExecuteResponse,
  type StreamRequest,
  type StreamResponse,
} from "./messages";
import type { Endpoint } from "./target";

/** How many hashes of blocks that the server holds are remembered. */
const KNOWN_BLOCKS = 4096;

type Method = "execute" | "closeSession" | "renewLease";
type Unary = (
  request: object,
  metadata: Metadata,
  options: CallOptions,
  done: (error: ServiceError | null, answer?: unknown) => void,
) => void;

type Stub = Client &
  Record<Method, Unary> & {
    executeStream(
      metadata: Metadata,
      options: CallOptions,
    ): ClientDuplexStream<StreamRequest, StreamResponse>;
  };

/** A channel to a server. */
export class Transport {
  readonly #client: Stub;
  readonly #known = new Set<string>();

  constructor(
    readonly endpoint: Endpoint,
    serverName?: string,
  ) {
    this.#client = new BackhaulService(endpoint.address, endpoint.credentials, {
      // The sizes of messages are kept to here: what is large goes by streams.
      "grpc.max_send_message_length": -1,
      "grpc.max_receive_message_length": -1,
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
      // A server that is restarted is there again soon; gRPC alone would wait up to two minutes.
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 250,
      "grpc.use_local_subchannel_pool": 1,
      // Proxies of the environment are for other machines.
      "grpc.enable_http_proxy": endpoint.local ? 0 : 1,
      ...(serverName === undefined ? {} : { "grpc.ssl_target_name_override": serverName }),
    }) as unknown as Stub;
  }

  /** A call of one message each way. */
  unary<T>(method: Method, request: object, session: Uint8Array | undefined, left?: number): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#client[method](request, this.#metadata(session), deadline(left), (error, answer) =>
        error ? reject(fromServiceError(error, this.endpoint.text)) : resolve(answer as T),
      );
    });
  }

  /** Execute in pieces. */
  executeStream(request: ExecuteRequest, chunkBytes: number, left?: number): Promise<ExecuteResponse> {
    const call = this.#client.executeStream(this.#metadata(request.session.id), deadline(left));
    const sending = Readable.from(outgoing(request, chunkBytes));
    const answer = new Promise<ExecuteResponse>((resolve, reject) => {
      const incoming = new Incoming();
      let ended = false;
      let succeeded = false;
      const settle = () => {
        // The status may come before the last of the data is read.
        if (!ended || !succeeded) return;
        try {
          resolve(incoming.finish());
        } catch (error) {
          reject(error);
        }
      };
      call.on("data", (part: StreamResponse) => {
        try {
          incoming.add(part);
        } catch (error) {
          reject(error);
          call.cancel();
        }
      });
      call.on("end", () => {
        ended = true;
        settle();
      });
      call.on("status", ({ code }) => {
        succeeded = code === status.OK;
        settle();
      });
      call.on("error", (error: ServiceError) => reject(fromServiceError(error, this.endpoint.text)));
    });
    sending.pipe(call as unknown as NodeJS.WritableStream); // its types know no streams of objects
    return answer.finally(() => sending.destroy());
  }

  /** Whether the server is believed to hold the block of this hash. */
  knows(hash: Uint8Array): boolean {
    return this.#known.has(hex(hash));
  }

  noteBlock(hash: Uint8Array): void {
    this.#known.add(hex(hash));
    const [oldest] = this.#known;
    if (this.#known.size > KNOWN_BLOCKS && oldest !== undefined) this.#known.delete(oldest);
  }

  forgetBlock(hash: Uint8Array): void {
    this.#known.delete(hex(hash));
  }

  close(): void {
    this.#client.close();
  }

  #metadata(session: Uint8Array | undefined): Metadata {
    const metadata = new Metadata();
    const { token } = this.endpoint;
    if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
    // Balancers between may route by it.
    if (session !== undefined) metadata.set("backhaul-session", hex(session));
    return metadata;
  }
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

const deadline = (left: number | undefined): CallOptions =>
  left === undefined ? {} : { deadline: Date.now() + left * 1000 };
