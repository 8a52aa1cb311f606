// When a call that broke is made again: after pauses that grow, and never past the caller's timeout.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <backhaul/error.hpp>

namespace backhaul::detail {

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;

Deadline deadline_after(std::optional<std::chrono::milliseconds> timeout);

// Whether a call that failed so may be made again as a whole: nothing answered, what arrived was broken, or the
// server ran nothing and says when to ask again.
bool may_repeat(const Error& error);

// Makes the call until it succeeds. Throws the Error of the last attempt.
void repeat(const std::function<void()>& attempt, const Deadline& deadline);

}  // namespace backhaul::detail
