// A case of the conformance kit, done on a server.
#pragma once

#include <backhaul/connection.hpp>
#include <nlohmann/json.hpp>

// The answer of a case, in a session of its own; or the error that it met.
nlohmann::json answer_of(const nlohmann::json& given, const backhaul::Connection& connection);
