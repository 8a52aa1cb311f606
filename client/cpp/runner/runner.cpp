// The conformance kit's runner: a case a line from standard input, its answer a line to standard output.
//
// runner --target HOST:PORT [--token TOKEN] [--ca FILE]
#include <chrono>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include <backhaul/connection.hpp>
#include <nlohmann/json.hpp>

#include "case.hpp"

int main(int count, char** arguments) {
  std::map<std::string, std::string> given = {{"--target", ""}, {"--token", ""}, {"--ca", ""}};
  bool understood = true;
  for (int at = 1; at < count; at += 2) {
    const auto option = given.find(arguments[at]);
    if (option == given.end() || at + 1 == count) {
      understood = false;
      break;
    }
    option->second = arguments[at + 1];
  }
  if (!understood || given["--target"].empty()) {
    std::cerr << "usage: runner --target HOST:PORT [--token TOKEN] [--ca FILE]\n";
    return 2;
  }
  try {
    const backhaul::Connection connection(given["--target"],
                                          {given["--token"], given["--ca"], std::chrono::seconds(30)});
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << answer_of(nlohmann::json::parse(line), connection) << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
