// The checksum of a stream's chunks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace backhaul::detail {

// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(const void* data, std::size_t size);

}  // namespace backhaul::detail
