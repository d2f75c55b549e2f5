#include "common/control/blocking_line_client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace ringmaster::control {
namespace {

Error Unavailable(const std::string& doing, int code) {
  return Error{ErrorKind::kUnavailable, "while " + doing + ": " + std::strerror(code)};
}

// Waits until the socket is ready for `events` or the deadline passes.
Result<void> WaitFor(int fd, short events, BlockingLineClient::Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto millis = std::clamp<int64_t>(left.count(), 0, 3'600'000);
    pollfd waiting{fd, events, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(millis));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR)
      return Unavailable("waiting for the other side of the socket", errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error{ErrorKind::kTimeout, "no message received in time"};
    }
  }
}

}  // namespace

Result<std::unique_ptr<BlockingLineClient>> BlockingLineClient::Connect(
    const std::string& socket_path) {
  const std::string doing = "connecting to " + socket_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return Error{ErrorKind::kInvalid, "while " + doing + ": the path is too long"};
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Unavailable(doing, errno);
  std::unique_ptr<BlockingLineClient> client(new BlockingLineClient(fd));
  int connected = 0;
  do {
    connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (connected != 0 && errno == EINTR);
  if (connected != 0) return Unavailable(doing, errno);
  return client;
}

BlockingLineClient::~BlockingLineClient() { ::close(fd_); }

Result<void> BlockingLineClient::Send(const Message& message, Deadline deadline) {
  std::string line = Encode(message);
  line += '\n';
  if (line.size() > kMaxLineBytes) {
    return Error{ErrorKind::kInvalid, "a " + std::string(TypeName(message)) + " message of " +
                                          std::to_string(line.size()) +
                                          " bytes exceeds the maximum line length"};
  }
  const MutexLock lock(send_mutex_);  // locked so that lines of two threads do not mix
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n =
        ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Result<void> ready = WaitFor(fd_, POLLOUT, deadline); !ready.ok()) {
        Shutdown();
        return ready.error().WithContext("sending on the socket");
      }
    } else if (errno != EINTR) {
      return Unavailable("sending on the socket", errno);
    }
  }
  return {};
}

Result<Message> BlockingLineClient::Receive(Deadline deadline) {
  while (true) {
    const std::size_t newline = buffer_.find('\n', scanned_);
    if (newline != std::string::npos) {
      const Result<Message> message = Decode(std::string_view(buffer_).substr(0, newline));
      buffer_.erase(0, newline + 1);
      scanned_ = 0;
      if (!message.ok() && message.error().reason == kReasonUnknownType) continue;
      return message;
    }
    scanned_ = buffer_.size();
    if (buffer_.size() >= kMaxLineBytes) {
      return Error{ErrorKind::kInvalid, "the other side sent an overlong line"};
    }
    if (Result<void> ready = WaitFor(fd_, POLLIN, deadline); !ready.ok()) return ready.error();
    char chunk[16384];
    const ssize_t n = ::recv(fd_, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n > 0) {
      buffer_.append(chunk, static_cast<std::size_t>(n));
    } else if (n == 0) {
      return Error{ErrorKind::kUnavailable, "the other side closed the connection"};
    } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      return Unavailable("receiving on the socket", errno);
    }
  }
}

void BlockingLineClient::Shutdown() { ::shutdown(fd_, SHUT_RDWR); }

}  // namespace ringmaster::control
