#pragma once

// An address that neither accepts nor refuses connections: a listening socket with a full queue, so
// that the kernel drops every further attempt. It simulates a host that has vanished.

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace ringmaster::trainer {

class BlackHole {
 public:
  BlackHole() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address_), size) != 0 ||
        ::listen(listener_, 0) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &size) != 0) {
      std::abort();
    }
    while (Connects()) {
    }
  }
  ~BlackHole() {
    for (const int fd : waiting_) ::close(fd);
    ::close(listener_);
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

  // Returns a Gloo address that begins with this socket address, as all Gloo addresses begin.
  std::string AddressLike(std::string gloo_address) const {
    std::memcpy(gloo_address.data(), &address_, sizeof(address_));
    return gloo_address;
  }

 private:
  bool Connects() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    waiting_.push_back(fd);
    ::connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_));
    pollfd connected{fd, POLLOUT, 0};
    return ::poll(&connected, 1, 100) > 0;
  }

  int listener_ = -1;
  sockaddr_in address_{};
  std::vector<int> waiting_;
};

}  // namespace ringmaster::trainer
