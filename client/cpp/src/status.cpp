#include "status.hpp"

#include <optional>
#include <regex>

#include "error_status.pb.h"

namespace backhaul::detail {

namespace {

constexpr char domain[] = "backhaul";

// Whether a packed detail is of this type, whatever host its URL names.
bool is_type(const google::protobuf::Any& packed, const std::string& type) {
  const std::string& url = packed.type_url();
  const std::size_t slash = url.rfind('/');
  return slash != std::string::npos && url.compare(slash + 1, std::string::npos, type) == 0;
}

std::optional<Error> sent(const grpc::Status& status) {
  client::ErrorStatus told;
  if (status.error_details().empty() || !told.ParseFromString(status.error_details())) return std::nullopt;
  std::optional<client::ErrorInfo> info;
  std::optional<std::chrono::nanoseconds> retry_after;
  for (const google::protobuf::Any& packed : told.details()) {
    client::ErrorInfo read;
    client::RetryInfo retry;
    if (is_type(packed, "google.rpc.ErrorInfo") && read.ParseFromString(packed.value()) &&
        read.domain() == domain) {
      info = read;
    } else if (is_type(packed, "google.rpc.RetryInfo") && retry.ParseFromString(packed.value())) {
      retry_after = std::chrono::seconds(retry.retry_delay().seconds()) +
                    std::chrono::nanoseconds(retry.retry_delay().nanos());
    }
  }
  if (!info) return std::nullopt;
  return Error(info->reason(), static_cast<Code>(status.error_code()), told.message(),
               {info->metadata().begin(), info->metadata().end()}, retry_after);
}

// gRPC's own refusal of a message, which comes before any code of the server's runs.
std::optional<Error> too_large(const std::string& said, const std::string& target) {
  static const std::regex form(R"((Sent|Received) message larger than max \((\d+) vs\. (\d+)\))");
  std::smatch found;
  if (!std::regex_search(said, found, form)) return std::nullopt;
  const std::string what = found[1] == "Sent" ? "answer" : "request";
  return Error("MESSAGE_TOO_LARGE", Code::resource_exhausted,
               "The " + what + " has " + found[2].str() + " bytes, and " + target + " allows " +
                   found[3].str() + ". Ask for less at once, or start the server with a larger limit.",
               {{"too_large", what}, {"actual", found[2]}, {"limit", found[3]}});
}

const char* reason_of(Code code) {
  switch (code) {
    case Code::unavailable: return "UNAVAILABLE";
    case Code::deadline_exceeded: return "DEADLINE_EXCEEDED";
    case Code::cancelled: return "CANCELLED";
    case Code::resource_exhausted: return "SERVER_BUSY";
    case Code::unauthenticated: return "UNAUTHENTICATED";
    case Code::permission_denied: return "PERMISSION_DENIED";
    case Code::unimplemented: return "VERSION_MISMATCH";
    case Code::invalid_argument: return "MALFORMED_REQUEST";
    default: return "INTERNAL";
  }
}

std::string words(Code code, const std::string& said, const std::string& target) {
  const std::string more = said.empty() ? "" : " (" + said + ")";
  switch (code) {
    case Code::unavailable:
      return "Nothing answers at " + target + more +
             ". Start the server there, or correct the target; by TLS, check whose certificate it shows.";
    case Code::deadline_exceeded:
      return "No answer from " + target + " within the timeout. Raise ConnectionOptions::timeout, or ask for less.";
    case Code::unimplemented:
      return "What answers at " + target + " does not know this call" + more + ": it is another service or version.";
    default:
      return "The call to " + target + " failed with " + std::string(name(code)) + more +
             "; this is what gRPC or something on the way says, not the server.";
  }
}

}  // namespace

Error error_of(const grpc::Status& status, const std::string& target) {
  if (std::optional<Error> error = sent(status)) return *error;
  const Code code = static_cast<Code>(status.error_code());
  const std::string& said = status.error_message();
  if (code == Code::resource_exhausted) {
    if (std::optional<Error> error = too_large(said, target)) return *error;
  }
  return Error(reason_of(code), code, words(code, said, target), {{"target", target}});
}

Error error_of(const v1::Failure& failure) {
  Error::Details details(failure.metadata().begin(), failure.metadata().end());
  details.emplace("node", std::to_string(failure.node()));
  // A Failure has no status. Steps fail on their operands, but for the code of a plugin, which can break by itself.
  const Code code = failure.reason() == "PLUGIN_FAILED" ? Code::failed_precondition : Code::invalid_argument;
  return Error(failure.reason(), code, failure.message(), details);
}

Error session_ended(const std::string& reason, const std::string& message) {
  const Code code = reason == "SESSION_NOT_FOUND" ? Code::not_found : Code::failed_precondition;
  return Error(reason, code, message);
}

}  // namespace backhaul::detail
