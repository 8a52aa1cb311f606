// Programs that a test runs against a server: scenarios TARGET NAME. Each prints what it got, a line each. Where it
// says "now", it waits for a line from standard input, while the test looks at the server or breaks something.
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <backhaul/backhaul.hpp>

namespace {

using backhaul::Connection;
using backhaul::Node;
using backhaul::Tape;
using backhaul::Tensor;

void now() {
  std::cout << "now" << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

// Runs an action: prints the reason of the Error that it ends in.
void told(const std::function<void()>& action) {
  try {
    action();
    std::cout << "no error" << std::endl;
  } catch (const backhaul::Error& error) {
    std::cout << error.reason() << ' ' << name(error.code()) << std::endl;
  }
}

void print(double number) { std::cout << number << std::endl; }

Node square(Tape& tape, const Node& of) { return tape.apply("multiply", {of, of}); }

// What was refused stays away from what is asked later, once its node is gone; what it stood beside is sent still.
void refusal(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(3.0));
  {
    const Node wrong = tape.apply("sinn", {square(tape, x)});
    told([&] { tape.value(wrong); });
    told([&] { tape.value(x); });  // the node is here still
  }
  print(tape.value(square(tape, x)).item<double>());
  Tape other(connection);
  told([&] { other.value(x); });
  told([&] { other.apply("sin", {Node()}); });
}

// A step that fails on its data fails alone, and whoever asks for it hears of it, at once or later.
void failure(const Connection& connection) {
  Tape tape(connection);
  const Node singular = tape.leaf(Tensor::of<double>({2, 2}, {1, 2, 2, 4}));
  const Node inverse = tape.apply("linalg.inv", {singular});
  const Node sum = tape.apply("sum", {singular});
  const Node dependant = tape.apply("sum", {inverse});
  tape.flush();
  print(tape.value(sum).item<double>());
  told([&] { tape.value(inverse); });
  told([&] { tape.pullback(dependant, {singular}); });
  told([&] { tape.value(tape.apply("linalg.inv", {tape.leaf(Tensor::of<double>({1, 1}, {0}))})); });
  print(tape.value(square(tape, sum)).item<double>());
}

// Arrays over the limit of a message go by stream, there and back, also where the answer alone is large.
void large(const Connection& connection) {
  Tape tape(connection);
  std::vector<double> numbers(1'500'000);
  for (std::size_t at = 0; at < numbers.size(); ++at) numbers[at] = static_cast<double>(at % 1000) / 7;
  const Tensor sent = Tensor::of({1500, 1000}, numbers);
  const Node x = tape.leaf(sent);
  const Tensor back = tape.value(x);
  print(back.bytes == sent.bytes && back.shape == sent.shape);
  const Node ones = tape.constant(Tensor::of<float>({1, 1}, {1}));
  const Tensor spread = tape.value(tape.apply("broadcast_to", {ones}, {{"shape", backhaul::IntList{1500, 1000}}}));
  print(static_cast<double>(spread.bytes.size()));
  print(static_cast<double>(spread.view<float>()[1'499'999]));
}

// Nodes that nothing names are freed with the next question, or by renew().
void released(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  {
    const Node y = square(tape, x);
    const Node z = tape.apply("sum", {y});
    print(tape.value(z).item<double>());
    now();
  }
  tape.renew();
  now();
  const Node never_sent = tape.apply("sinn", {x});
}

// Recorded, never needed: not sent.
void unneeded(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  for (int count = 0; count < 5; ++count) square(tape, square(tape, x));
  print(tape.value(x).item<double>());
  now();
}

// A connection that breaks in the middle of a question; the client does not show it.
void broken(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  print(tape.value(x).item<double>());
  now();
  print(tape.pullback(square(tape, x), {x}).gradients[0].item<double>());
  now();
}

// An answer that does not come in time; what it was for goes on afterwards, each step once.
void doubt(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  tape.flush();
  now();
  const Node y = square(tape, x);
  told([&] { tape.value(y); });
  now();
  const Node z = square(tape, y);
  print(tape.value(z).item<double>());
  print(tape.pullback(z, {x}).gradients[0].item<double>());
  now();
}

// The same, where the server in the end refuses what was in doubt.
void doubt_refused(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  tape.flush();
  now();
  std::optional<Node> wrong = tape.apply("sinn", {x});
  told([&] { tape.value(*wrong); });
  now();
  const Node y = square(tape, x);
  told([&] { tape.value(y); });
  wrong.reset();
  print(tape.value(y).item<double>());
}

// A server that went and came again has lost the tape, and says so each time.
void lost(const Connection& connection) {
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  tape.flush();
  now();
  told([&] { tape.value(x); });
  told([&] { tape.renew(); });
  told([&] { tape.close(); });
  Tape next(connection);
  print(next.value(next.leaf(Tensor::scalar(5.0))).item<double>());
}

// The end of a tape, by close() and without.
void closed(const Connection& connection) {
  {
    Tape gone(connection);
    gone.leaf(Tensor::scalar(2.0));
    const Node kept = gone.leaf(Tensor::scalar(2.0));
    gone.flush();
    now();
  }
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(2.0));
  Tape moved = std::move(tape);
  print(moved.value(x).item<double>());
  told([&] { tape.value(x); });
  moved.close();
  moved.close();
  told([&] { moved.value(x); });
  now();
}

// Who calls, and what the server says of itself.
void access(const Connection& connection) {
  std::cout << connection.server_info().protocol << std::endl;
  Tape tape(connection);
  const Node x = tape.leaf(Tensor::scalar(3.0));
  print(tape.pullback(square(tape, x), {x}).gradients[0].item<double>());
}

const std::map<std::string, void (*)(const Connection&)> scenarios = {
    {"refusal", refusal}, {"failure", failure},   {"large", large}, {"released", released},
    {"unneeded", unneeded}, {"broken", broken},   {"doubt", doubt}, {"doubt_refused", doubt_refused},
    {"lost", lost},       {"closed", closed},     {"access", access},
};

}  // namespace

int main(int count, char** arguments) {
  const auto scenario = count < 3 ? scenarios.end() : scenarios.find(arguments[2]);
  if (scenario == scenarios.end()) {
    std::cerr << "usage: scenarios TARGET NAME [TIMEOUT_MS [TOKEN [CA_FILE]]]\n";
    return 2;
  }
  backhaul::ConnectionOptions options;
  options.timeout = std::chrono::milliseconds(count > 3 ? std::stoi(arguments[3]) : 30000);
  if (count > 4) options.token = arguments[4];
  if (count > 5) options.ca = arguments[5];
  try {
    scenario->second(Connection(arguments[1], options));
  } catch (const backhaul::Error& error) {
    std::cerr << error.what() << '\n';
    std::cout << error.reason() << ' ' << name(error.code()) << std::endl;
    return 1;
  }
  return 0;
}
