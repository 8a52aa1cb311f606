#include <backhaul/error.hpp>

#include <array>
#include <utility>

namespace backhaul {

std::string_view name(Code code) {
  static constexpr std::array<std::string_view, 17> names = {
      "OK",                "CANCELLED",          "UNKNOWN",
      "INVALID_ARGUMENT",  "DEADLINE_EXCEEDED",  "NOT_FOUND",
      "ALREADY_EXISTS",    "PERMISSION_DENIED",  "RESOURCE_EXHAUSTED",
      "FAILED_PRECONDITION", "ABORTED",          "OUT_OF_RANGE",
      "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS",         "UNAUTHENTICATED",
  };
  const auto at = static_cast<std::size_t>(code);
  return at < names.size() ? names[at] : "UNKNOWN";
}

Error::Error(std::string reason, Code code, const std::string& message, Details details,
             std::optional<std::chrono::nanoseconds> retry_after)
    : std::runtime_error(message + " [" + reason + "]"),
      reason_(std::move(reason)),
      code_(code),
      details_(std::move(details)),
      retry_after_(retry_after) {}

}  // namespace backhaul
