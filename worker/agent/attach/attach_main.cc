#include "worker/agent/attach/attach_main.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "worker/agent/attach/attach.h"

namespace ringmaster::agent {
namespace {

int RunAttach(const std::vector<std::string>& arguments) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  AttachArguments read = ReadAttachArguments(arguments, ProcessEnvironment(environ), host.data());
  if (!read.options.has_value()) {
    std::fprintf(stderr, "ringmaster-attach: %s\n", read.failure.message.c_str());
    return read.failure.exit_code;
  }
  boost::asio::io_context io(1);
  return Attach(io, *std::move(read.options), host.data()).Run();
}

}  // namespace

int AttachMain(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string_view("--help")) {
    std::puts(
        "Ringmaster's attach: represents a rank of this host's agent in mpirun, or runs PROGRAM.\n"
        "Usage, by mpirun: ringmaster-attach --cohort=N [--stay] [-- PROGRAM ARGUMENTS]");
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  try {
    return RunAttach(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-attach: %s\n", error.what());
    return 1;
  }
}

}  // namespace ringmaster::agent
