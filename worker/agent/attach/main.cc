// ringmaster-attach: one per slot, started by mpirun. See attach.h.

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "worker/agent/attach/attach.h"

namespace {

int Run(const std::vector<std::string>& arguments) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  ringmaster::agent::AttachArguments read = ringmaster::agent::ReadAttachArguments(
      arguments, ringmaster::agent::ProcessEnvironment(environ), host.data());
  if (!read.options.has_value()) {
    std::fprintf(stderr, "ringmaster-attach: %s\n", read.failure.message.c_str());
    return read.failure.exit_code;
  }
  boost::asio::io_context io(1);
  return ringmaster::agent::Attach(io, *std::move(read.options), host.data()).Run();
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  try {
    return Run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-attach: %s\n", error.what());
    return 1;
  }
}
