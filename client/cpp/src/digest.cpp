#include "digest.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <backhaul/error.hpp>

namespace backhaul::detail {

namespace {

void check(int result, const char* what) {
  if (result != 1) {
    throw Error("INTERNAL", Code::internal,
                std::string("OpenSSL gave no ") + what + "; its installation may be broken.");
  }
}

}  // namespace

std::string sha256(const std::string& data) {
  std::string digest(32, '\0');
  check(EVP_Digest(data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
                   EVP_sha256(), nullptr),
        "SHA-256");
  return digest;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  check(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)),
        "random bytes");
  return bytes;
}

std::string hexadecimal(const std::string& bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    text += digits[byte >> 4];
    text += digits[byte & 0xF];
  }
  return text;
}

}  // namespace backhaul::detail
