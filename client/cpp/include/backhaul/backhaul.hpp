// All of the client.
#pragma once

#include <backhaul/attribute.hpp>
#include <backhaul/connection.hpp>
#include <backhaul/error.hpp>
#include <backhaul/tape.hpp>
#include <backhaul/tensor.hpp>
