// Connections: where a program begins.
import type { SessionOptions } from "./session";
import { Tape } from "./tape";
import { type ConnectOptions, endpointOf } from "./target";
import { Transport } from "./transport";

/** A connection to a server, with any number of tapes. */
export class Connection {
  readonly #transport: Transport;
  readonly #timeout: number | undefined;
  readonly #tapes = new Set<WeakRef<Tape>>();

  /** Made by `connect`. */
  constructor(target: string | undefined, options: ConnectOptions) {
    this.#transport = new Transport(endpointOf(target, options), options.serverName);
    this.#timeout = options.timeout;
  }

  /** A new tape. Its session is opened by the first request. */
  tape(options: SessionOptions = {}): Tape {
    const tape = new Tape(this.#transport, options, this.#timeout);
    for (const each of this.#tapes) if (each.deref() === undefined) this.#tapes.delete(each);
    this.#tapes.add(new WeakRef(tape));
    return tape;
  }

  /** Closes its tapes, then the connection. */
  async close(): Promise<void> {
    const tapes = [...this.#tapes].map((each) => each.deref()?.close());
    try {
      await Promise.all(tapes);
    } finally {
      this.#transport.close();
    }
  }
}

/**
 * Connects to a server; nothing is sent before the first question.
 *
 * @param target host:port, grpc://host:port, grpcs://host:port (TLS) or unix:///path; left out:
 *   $BACKHAUL_TARGET.
 * @throws BackhaulError INVALID_TARGET, INVALID_VALUE; PERMISSION_DENIED: the token would travel in the clear.
 */
export const connect = (target?: string, options: ConnectOptions = {}): Connection =>
  new Connection(target, options);
