#include "bench/overhead/quiet_agent.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/control/messages.h"

namespace ringmaster::overhead {

QuietAgent::QuietAgent(const std::string& path, const control::RankEpoch& world) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener_, 1) != 0) {
    std::perror(("figure-b11: while listening at " + path).c_str());
    std::exit(1);
  }
  thread_ = std::jthread([this, line = control::Encode(world) + "\n"] { Serve(line); });
}

QuietAgent::~QuietAgent() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void QuietAgent::Serve(const std::string& greeting) const {
  const int rank = ::accept(listener_, nullptr, nullptr);
  if (rank < 0) return;
  if (::send(rank, greeting.data(), greeting.size(), MSG_NOSIGNAL) > 0) {
    std::array<char, 4096> heard{};
    while (::read(rank, heard.data(), heard.size()) > 0) continue;
  }
  ::close(rank);
}

}  // namespace ringmaster::overhead
