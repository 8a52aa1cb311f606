#include "crc32c.hpp"

#include <array>
#include <cstring>

namespace backhaul::detail {

namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Row k has the checksum of a byte that k zero bytes follow, so that eight bytes take one step instead of eight
// (Kounavis and Berry, A Systematic Approach to Building High Performance Software-based CRC Generators, 2005).
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    for (std::size_t row = 1; row < 8; ++row) {
      const std::uint32_t before = tables[row - 1][byte];
      tables[row][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t size) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = 0xFFFFFFFFu;
  for (; size >= 8; at += 8, size -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);  // little endian, as tensor.cpp checks
    word ^= crc;
    crc = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) crc ^= tables[7 - byte][(word >> (8 * byte)) & 0xFF];
  }
  for (; size != 0; ++at, --size) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFF];
  return crc ^ 0xFFFFFFFFu;
}

}  // namespace backhaul::detail
