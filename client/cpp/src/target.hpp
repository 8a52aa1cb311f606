// How a user says where the server is.
#pragma once

#include <string>

namespace backhaul::detail {

struct Target {
  enum class Kind { plain, tls, unix_socket };

  std::string text;     // as the user wrote it
  Kind kind;
  std::string address;  // what gRPC dials
  bool local;           // only this machine can be at the other end
};

// Reads a target; with `certified`, authorities were named, so host:port is by TLS. Throws Error INVALID_TARGET.
Target parse_target(const std::string& text, bool certified);

}  // namespace backhaul::detail
