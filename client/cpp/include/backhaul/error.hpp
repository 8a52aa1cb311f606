// The one exception of this client.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace backhaul {

// gRPC's status codes, by gRPC's numbers.
enum class Code {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

// The name of a code as gRPC writes it, such as "INVALID_ARGUMENT".
std::string_view name(Code code);

// What the server refused, what failed on its data, or why no answer came.
//
// `reason` is a stable code to branch on, such as "EINSUM_SYNTAX"; what() is for people. Errors that this client
// finds itself have the reason and the code that the server would give.
class Error : public std::runtime_error {
 public:
  using Details = std::map<std::string, std::string>;

  Error(std::string reason, Code code, const std::string& message, Details details = {},
        std::optional<std::chrono::nanoseconds> retry_after = std::nullopt);

  const std::string& reason() const noexcept { return reason_; }
  Code code() const noexcept { return code_; }
  // Facts by name: op, node, operand, expected, actual, ...
  const Details& details() const noexcept { return details_; }
  // The same request may succeed after so long; nothing of it was run.
  std::optional<std::chrono::nanoseconds> retry_after() const noexcept { return retry_after_; }

 private:
  std::string reason_;
  Code code_;
  Details details_;
  std::optional<std::chrono::nanoseconds> retry_after_;
};

}  // namespace backhaul
