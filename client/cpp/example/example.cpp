// A gradient and a Hessian-vector product: ./example HOST:PORT [TOKEN [CA_FILE]]
#include <iostream>

#include <backhaul/backhaul.hpp>

namespace {

void print(const char* what, const backhaul::Tensor& tensor) {
  std::cout << what;
  for (const double each : tensor.view<double>()) std::cout << ' ' << each;
  std::cout << '\n';
}

void run(const std::string& target, const backhaul::ConnectionOptions& options) {
  const backhaul::Connection connection(target, options);
  backhaul::Tape tape(connection);

  const std::vector<double> ones(12, 1.0);
  const backhaul::Node a = tape.leaf(backhaul::Tensor::of<double>({2, 3}, {1, 1, 1, 1, 1, 1}));
  const backhaul::Node b = tape.leaf(backhaul::Tensor::of({3, 4}, ones));
  const backhaul::Node c = tape.einsum("ij,jk->ik", {a, b});
  const backhaul::Node loss = tape.einsum("ij,ij->", {c, c});
  const backhaul::Pullback answer = tape.pullback(loss, {a});  // sends all of the above, and asks
  print("loss", answer.value);
  print("gradient", answer.gradients[0]);

  const backhaul::Node x = tape.leaf(backhaul::Tensor::of<double>({3}, {1, 2, 3}));
  const backhaul::Node cubes = tape.apply("sum", {tape.apply("multiply", {x, tape.apply("multiply", {x, x})})});
  const auto along = backhaul::Tensor::of<double>({3}, {1, 0, -1});
  print("product", tape.hvp(cubes, {x}, {{x, along}}).products[0]);

  try {
    tape.value(tape.einsum("ij,jk->ik", {a, x}));
  } catch (const backhaul::Error& error) {
    std::cout << "refused " << error.reason() << '\n';
  }
  tape.close();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 4) {
    std::cerr << "usage: example HOST:PORT [TOKEN [CA_FILE]]\n";
    return 2;
  }
  backhaul::ConnectionOptions options;
  if (count > 2) options.token = arguments[2];
  if (count > 3) options.ca = arguments[3];
  try {
    run(arguments[1], options);
  } catch (const backhaul::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
