#include "base64.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace {

constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint32_t digit(char each) {
  const std::size_t at = std::string(digits).find(each);
  if (at == std::string::npos) throw std::invalid_argument("a tensor's data is no base64");
  return static_cast<std::uint32_t>(at);
}

}  // namespace

std::string to_base64(const std::vector<std::byte>& bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < count; ++k) group |= std::to_integer<std::uint32_t>(bytes[at + k]) << (16 - 8 * k);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? digits[(group >> (18 - 6 * k)) & 63] : '=';
  }
  return text;
}

std::vector<std::byte> from_base64(const std::string& text) {
  if (text.size() % 4 != 0) throw std::invalid_argument("a tensor's data is no whole base64");
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const std::size_t padding = !last || text[at + 3] != '=' ? 0 : text[at + 2] != '=' ? 1 : 2;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4 - padding; ++k) group |= digit(text[at + k]) << (18 - 6 * k);
    for (std::size_t k = 0; k < 3 - padding; ++k) bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * k)));
  }
  return bytes;
}
