// Where the server is, and who is calling.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace backhaul {

namespace detail {
class Channel;
}

struct ConnectionOptions {
  // Sent with each call as a bearer token; empty: none. It never travels in the clear beyond this machine.
  std::string token = {};
  // File of the PEM certificates of the authorities that the server is proved by. Named, the connection is by TLS.
  std::string ca = {};
  // For each question, all its tries together; none: as long as it takes.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
};

// What a server says of itself.
struct ServerInfo {
  std::string version;
  std::string protocol;
  std::string backend;
};

// A connection to a server. Copies are the same connection; threads may share it.
class Connection {
 public:
  // The target is host:port, grpc://host:port, grpcs://host:port (by TLS, by the system's authorities unless `ca`
  // names others), or unix:///path/to/socket. Nothing is dialled before the first call.
  //
  // Throws Error INVALID_TARGET; INVALID_VALUE: a token or file that cannot be one; PERMISSION_DENIED: the token would
  // travel in the clear.
  explicit Connection(const std::string& target, const ConnectionOptions& options = {});

  // Throws Error where the server cannot be reached, or does not let this caller in.
  ServerInfo server_info() const;

 private:
  friend class Tape;
  std::shared_ptr<detail::Channel> channel_;
};

}  // namespace backhaul
