// Blocks that the server is thought to hold, so that their hash alone is sent.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_set>

namespace backhaul::detail {

// Threads may share it.
class KnownBlocks {
 public:
  bool holds(const std::string& hash) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return hashes_.count(hash) != 0;
  }

  void add(const std::string& hash) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (hashes_.size() >= most) hashes_.clear();  // what is forgotten is sent once more
    hashes_.insert(hash);
  }

  void forget(const std::string& hash) {
    const std::lock_guard<std::mutex> lock(mutex_);
    hashes_.erase(hash);
  }

 private:
  static constexpr std::size_t most = 4096;
  mutable std::mutex mutex_;
  std::unordered_set<std::string> hashes_;
};

}  // namespace backhaul::detail
