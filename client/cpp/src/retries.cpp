#include "retries.hpp"

#include <algorithm>
#include <random>
#include <thread>

namespace backhaul::detail {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr int tries = 4;
constexpr Seconds first_pause{0.1};
constexpr Seconds longest_pause{2.0};
// What a call without a timeout waits at most because the server asks for it.
constexpr Seconds longest_asked{60.0};

// Half of the pause is fixed, so that a server is never asked again at once; the rest keeps clients apart.
Seconds pause_before(int attempt) {
  thread_local std::minstd_rand source{std::random_device{}()};
  const Seconds longest = std::min(longest_pause, first_pause * static_cast<double>(1 << std::min(attempt, 10)));
  return longest * std::uniform_real_distribution<double>(0.5, 1.0)(source);
}

}  // namespace

Deadline deadline_after(std::optional<std::chrono::milliseconds> timeout) {
  if (!timeout) return std::nullopt;
  return Clock::now() + *timeout;
}

bool may_repeat(const Error& error) {
  if (error.reason() == "DRAINING") return false;  // the server is leaving and takes nothing more
  if (error.reason() == "SERVER_BUSY" && error.details().count("streams") != 0) return true;
  return error.reason() == "UNAVAILABLE" || error.reason() == "CHUNK_CHECKSUM" || error.retry_after().has_value();
}

void repeat(const std::function<void()>& attempt, const Deadline& deadline) {
  for (int count = 1;; ++count) {
    try {
      return attempt();
    } catch (const Error& error) {
      // A server that says when to come again is asked until there is no time left.
      const bool no_end = error.retry_after() && deadline;
      if (!may_repeat(error) || (count >= tries && !no_end)) throw;
      Seconds pause = pause_before(count - 1);
      if (error.retry_after()) pause += *error.retry_after();
      if (deadline ? Clock::now() + pause >= *deadline : pause > longest_asked) throw;
      std::this_thread::sleep_for(pause);
    }
  }
}

}  // namespace backhaul::detail
