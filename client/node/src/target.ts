// Targets: how a program says where the server is, and what may travel there.
import { readFileSync } from "node:fs";
import { BlockList, isIP } from "node:net";

import { type ChannelCredentials, credentials } from "@grpc/grpc-js";

import { BackhaulError } from "./errors";

/** How a server is spoken to. */
export interface ConnectOptions {
  /** Sent with each call as a bearer token. Left out: $BACKHAUL_TOKEN; "": none. */
  token?: string;
  /** File of the authorities (PEM) that the server's certificate is checked against; turns TLS on. */
  ca?: string;
  /** File of this client's certificate (PEM), for servers that want one, with its `key`. */
  certificate?: string;
  /** File of its private key (PEM). */
  key?: string;
  /** The name that the server's certificate must have; left out: the target's host. */
  serverName?: string;
  /** Seconds that each request may take, repetitions included; left out: as long as it takes. */
  timeout?: number;
}

/** A server's place, with what is needed to speak with it. */
export interface Endpoint {
  /** As the program wrote it. */
  readonly text: string;
  /** What gRPC dials. */
  readonly address: string;
  /** Whether only this machine can be at the other end. */
  readonly local: boolean;
  readonly credentials: ChannelCredentials;
  readonly token: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

const FORMS =
  "Write host:port, grpc://host:port, grpcs://host:port (with TLS), or unix:///path/to/socket.";

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/**
 * Reads a target and checks that the options go with it.
 *
 * @throws BackhaulError INVALID_TARGET; INVALID_VALUE; PERMISSION_DENIED: the token would travel in the clear.
 */
export function endpointOf(
  target: string | undefined,
  options: ConnectOptions,
  environment: Environment = process.env,
): Endpoint {
  const text = target ?? environment["BACKHAUL_TARGET"] ?? "";
  const [scheme, rest] = text.includes("://")
    ? (text.split(/:\/\/(.*)/s, 2) as [string, string])
    : ["", text];
  if (!["", "grpc", "grpcs", "unix"].includes(scheme)) {
    throw invalidTarget(text, `there is no scheme ${scheme}`);
  }
  const token = checkedToken(options.token ?? environment["BACKHAUL_TOKEN"] ?? "");
  const wantsTls = options.ca !== undefined || options.certificate !== undefined;
  if (wantsTls && (scheme === "grpc" || scheme === "unix")) {
    throw invalidValue(`ca and certificate do not go with ${text}; write grpcs://host:port or host:port.`);
  }
  if ((options.certificate === undefined) !== (options.key === undefined)) {
    throw invalidValue("A certificate goes with its key, and neither without the other.");
  }
  if (options.timeout !== undefined && !(options.timeout > 0)) {
    throw invalidValue(`timeout is ${options.timeout}; it is a number of seconds above 0.`);
  }
  if (scheme === "unix") {
    if (!rest.startsWith("/")) throw invalidTarget(text, "the socket's path does not begin at /");
    return { text, address: `unix:${rest}`, local: true, credentials: credentials.createInsecure(), token };
  }
  const { address, local } = network(text, rest);
  const tls = scheme === "grpcs" || wantsTls;
  if (token !== undefined && !tls && !local) {
    throw new BackhaulError(
      `The token would travel to ${text} in the clear, for anyone on the way to read. ` +
        'Use grpcs://host:port, or no token: { token: "" }.',
      { reason: "PERMISSION_DENIED", code: "PERMISSION_DENIED", details: { target: text } },
    );
  }
  const channel = tls
    ? credentials.createSsl(pem(options.ca), pem(options.key), pem(options.certificate))
    : credentials.createInsecure();
  return { text, address, local, credentials: channel, token };
}

function network(text: string, place: string): { address: string; local: boolean } {
  const [, bracketed, name, port] = /^(?:\[([^\]]*)\]|([\p{L}\p{N}._-]+)):(\d+)$/u.exec(place) ?? [];
  const host = bracketed ?? name;
  if (host === undefined || (bracketed !== undefined && isIP(bracketed) !== 6)) {
    throw invalidTarget(text, "it is no host and port");
  }
  if (!(Number(port) > 0 && Number(port) < 65536)) throw invalidTarget(text, `${port} is no port`);
  const family = isIP(host);
  const local =
    host === "localhost" || (family !== 0 && LOOPBACK.check(host, family === 4 ? "ipv4" : "ipv6"));
  return { address: place, local };
}

function checkedToken(token: string): string | undefined {
  if (!/^[!-~]*$/.test(token) || token.endsWith("\n")) {
    throw invalidValue(
      "The token is no string of visible ASCII characters without spaces. Is there the end of a line in it?",
    );
  }
  return token || undefined;
}

function pem(path: string | undefined): Buffer | null {
  if (path === undefined) return null;
  try {
    return readFileSync(path);
  } catch (error) {
    throw invalidValue(`${path} cannot be read (${(error as Error).message}); name a PEM file.`);
  }
}

const invalidTarget = (text: string, why: string): BackhaulError =>
  new BackhaulError(`The target ${JSON.stringify(text)} cannot be used: ${why}. ${FORMS}`, {
    reason: "INVALID_TARGET",
    code: "INVALID_ARGUMENT",
    details: { target: text },
  });

const invalidValue = (message: string): BackhaulError =>
  new BackhaulError(message, { reason: "INVALID_VALUE", code: "INVALID_ARGUMENT" });
