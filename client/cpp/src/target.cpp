#include "target.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include <backhaul/error.hpp>

namespace backhaul::detail {

namespace {

[[noreturn]] void invalid(const std::string& text, const std::string& why) {
  throw Error("INVALID_TARGET", Code::invalid_argument,
              "The target '" + text + "' cannot be used: " + why +
                  ". Write host:port, grpc://host:port, grpcs://host:port (with TLS), or "
                  "unix:///path/to/socket.",
              {{"target", text}});
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  return host == "localhost";
}

bool is_port(const std::string& port) {
  const auto digit = [](unsigned char each) { return std::isdigit(each) != 0; };
  if (port.empty() || port.size() > 5 || !std::all_of(port.begin(), port.end(), digit)) return false;
  const int number = std::stoi(port);
  return 0 < number && number < 65536;
}

Target network(const std::string& text, Target::Kind kind, const std::string& place) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos) invalid(text, "the port is missing, as in host:50051");
  std::string host = place.substr(0, colon);
  const std::string port = place.substr(colon + 1);
  std::string bare = host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    bare = host.substr(1, host.size() - 2);
    in6_addr v6{};
    if (inet_pton(AF_INET6, bare.c_str(), &v6) != 1) invalid(text, "'" + host + "' is no IPv6 address");
  } else {
    const auto fits = [](unsigned char each) {
      return std::isalnum(each) != 0 || each == '.' || each == '-' || each == '_';
    };
    if (host.empty()) invalid(text, "the host is missing");
    if (!std::all_of(host.begin(), host.end(), fits)) {
      invalid(text, "'" + host + "' is no host name (an IPv6 address stands in brackets)");
    }
  }
  if (!is_port(port)) invalid(text, "'" + port + "' is no port");
  return {text, kind, host + ":" + port, is_loopback(bare)};
}

}  // namespace

Target parse_target(const std::string& text, bool certified) {
  const std::size_t separator = text.find("://");
  if (separator == std::string::npos) {
    return network(text, certified ? Target::Kind::tls : Target::Kind::plain, text);
  }
  const std::string scheme = text.substr(0, separator);
  const std::string rest = text.substr(separator + 3);
  if (scheme == "grpcs") return network(text, Target::Kind::tls, rest);
  if (scheme != "grpc" && scheme != "unix") invalid(text, "there is no scheme '" + scheme + "'");
  if (certified) invalid(text, "certificates were named, and this form has no TLS");
  if (scheme == "grpc") return network(text, Target::Kind::plain, rest);
  if (rest.empty() || rest.front() != '/') invalid(text, "the path of the socket does not begin at /");
  return {text, Target::Kind::unix_socket, "unix:" + rest, true};
}

}  // namespace backhaul::detail
