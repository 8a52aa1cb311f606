// What can be told without a server. Exit status 1, and a line for each check that does not hold.
#include <chrono>
#include <cmath>
#include <complex>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <backhaul/backhaul.hpp>

#include "crc32c.hpp"
#include "digest.hpp"
#include "retries.hpp"
#include "target.hpp"

namespace {

int failures = 0;

template <class Actual, class Expected>
void expect(const char* what, const Actual& actual, const Expected& expected) {
  if (actual == expected) return;
  ++failures;
  std::cerr << what << ": " << actual << ", not " << expected << '\n';
}

// The reason of the Error that an action ends in.
template <class Action>
std::string reason_of(Action action) {
  try {
    action();
  } catch (const backhaul::Error& error) {
    return error.reason();
  }
  return "none";
}

void checksums() {
  using backhaul::detail::crc32c;
  expect("check value", crc32c("123456789", 9), 0xE3069283u);
  expect("nothing", crc32c("", 0), 0u);
  // RFC 3720, appendix B.4
  std::string bytes(32, '\0');
  expect("32 zeros", crc32c(bytes.data(), 32), 0x8A9136AAu);
  for (std::size_t at = 0; at < 32; ++at) bytes[at] = static_cast<char>(at);
  expect("32 ascending", crc32c(bytes.data(), 32), 0x46DD794Eu);
  // FIPS 180-2, appendix B.1
  expect("sha256", backhaul::detail::hexadecimal(backhaul::detail::sha256("abc")),
         std::string("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

void targets() {
  using backhaul::detail::parse_target;
  using backhaul::detail::Target;
  expect("plain", parse_target("host:1", false).address, std::string("host:1"));
  expect("plain kind", parse_target("host:1", false).kind == Target::Kind::plain, true);
  expect("named authorities", parse_target("host:1", true).kind == Target::Kind::tls, true);
  expect("grpcs", parse_target("grpcs://host:1", false).kind == Target::Kind::tls, true);
  expect("unix", parse_target("unix:///run/it", false).address, std::string("unix:/run/it"));
  for (const char* local : {"localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:///run/it"}) {
    expect(local, parse_target(local, false).local, true);
  }
  for (const char* far : {"localhost.example.org:1", "10.0.0.1:1", "[::2]:1", "127.example.org:1", "0.0.0.0:1"}) {
    expect(far, parse_target(far, false).local, false);
  }
  for (const char* wrong : {"", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "::1:1", "[::g]:1",
                            "http://host:1", "unix://it", "ho st:1"}) {
    expect(wrong, reason_of([&] { parse_target(wrong, false); }), std::string("INVALID_TARGET"));
  }
  expect("authorities without TLS", reason_of([] { parse_target("grpc://host:1", true); }), std::string("INVALID_TARGET"));
}

void tokens() {
  const auto connecting = [](const char* target, const char* token) {
    return reason_of([&] { backhaul::Connection(target, {token}); });
  };
  expect("in the clear", connecting("10.0.0.1:1", "secret"), std::string("PERMISSION_DENIED"));
  expect("by name", connecting("grpc://example.org:1", "secret"), std::string("PERMISSION_DENIED"));
  expect("on the loopback", connecting("127.0.0.1:1", "secret"), std::string("none"));
  expect("by TLS", connecting("grpcs://example.org:1", "secret"), std::string("none"));
  expect("no token", connecting("10.0.0.1:1", ""), std::string("none"));
  expect("two lines", connecting("127.0.0.1:1", "a\nb"), std::string("INVALID_VALUE"));
  expect("no file", reason_of([] { backhaul::Connection("host:1", {"", "/nowhere/ca.pem"}); }), std::string("INVALID_VALUE"));
}

void tensors() {
  using backhaul::Tensor;
  using Complex = std::complex<double>;
  const Tensor matrix = Tensor::of<std::int64_t>({2, 2}, {1, 2, 3, 4});
  expect("int64", matrix.view<std::int64_t>()[3], 4);
  expect("bytes", matrix.bytes.size(), 32u);
  expect("complex", Tensor::of<Complex>({1}, {{1, -2}}).item<Complex>(), Complex(1, -2));
  expect("bools", Tensor::of<bool>({3}, {true, false, true}).view<bool>()[2], true);
  expect("signed zero", std::signbit(Tensor::scalar(-0.0).item<double>()), true);
  expect("empty", Tensor::of<float>({0, 3}, {}).view<float>().size(), 0u);
  expect("another type", reason_of([&] { matrix.view<double>(); }), std::string("DTYPE_NOT_SUPPORTED"));
  expect("item of four", reason_of([&] { matrix.item<std::int64_t>(); }), std::string("SHAPE_MISMATCH"));
  expect("too few", reason_of([] { Tensor::of<double>({3}, {1, 2}); }), std::string("SHAPE_MISMATCH"));
  expect("negative", reason_of([] { Tensor::of<double>({-1}, {1}); }), std::string("SHAPE_MISMATCH"));
  expect("too many to count", reason_of([] { Tensor::of<double>({1L << 62, 8}, {1}); }), std::string("SHAPE_MISMATCH"));
}

void retries() {
  using backhaul::Code;
  using backhaul::Error;
  const auto tried = [](const Error& error, std::optional<std::chrono::milliseconds> timeout) {
    int count = 0;
    reason_of([&] {
      backhaul::detail::repeat([&] { ++count; throw error; }, backhaul::detail::deadline_after(timeout));
    });
    return count;
  };
  const Error unavailable("UNAVAILABLE", Code::unavailable, "");
  expect("until tries are used up", tried(unavailable, std::nullopt), 4);
  expect("not past the timeout", tried(unavailable, std::chrono::milliseconds(1)), 1);
  expect("a refusal", tried(Error("EINSUM_SYNTAX", Code::invalid_argument, ""), std::nullopt), 1);
  expect("no room now", tried(Error("SERVER_BUSY", Code::resource_exhausted, "", {}, std::chrono::milliseconds(1)),
                              std::nullopt), 4);
  expect("no room ever", tried(Error("MEMORY_LIMIT_EXCEEDED", Code::resource_exhausted, ""), std::nullopt), 1);
  expect("a pause too long", tried(Error("SERVER_BUSY", Code::resource_exhausted, "", {}, std::chrono::hours(1)),
                                   std::nullopt), 1);
}

}  // namespace

int main() {
  checksums();
  targets();
  tokens();
  tensors();
  retries();
  std::cout << (failures == 0 ? "all hold\n" : "some do not hold\n");
  return failures == 0 ? 0 : 1;
}
