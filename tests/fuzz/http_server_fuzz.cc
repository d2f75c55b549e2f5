// Fuzzes the operator's HTTP port: after arbitrary bytes, sent in pieces on separate connections,
// the next probe must be answered.

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/http/admin_server.h"

namespace {

using namespace ringmaster;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  close(socket);
  return ntohs(address.sin_port);
}

// Lets system calls restart after the fuzzer's alarm. Returns whether this succeeded.
bool RestartInterruptedCalls() {
  struct sigaction action {};
  if (sigaction(SIGALRM, nullptr, &action) != 0) std::abort();
  action.sa_flags |= SA_RESTART;
  return sigaction(SIGALRM, &action, nullptr) == 0;
}

struct RunningServer {
  bool restarts = RestartInterruptedCalls();
  int port = FreePort();
  std::unique_ptr<http::AdminServer> server = [this] {
    auto started = http::AdminServer::Start("127.0.0.1:" + std::to_string(port),
                                            {{"/healthz", [] {
                                                return net::HttpAnswer{200, "ok\n"};
                                              }}});
    if (!started.ok()) std::abort();
    return *std::move(started);
  }();
};

// Sends the bytes and returns the answer, up to the end of the connection. Uses another local
// address each time, because the ports of one address would run out.
std::string Exchange(int port, std::string_view bytes, std::size_t piece) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  static uint32_t source = 0;
  sockaddr_in own = Loopback(0);
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + source++ % 4096);
  const sockaddr_in address = Loopback(port);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::abort();
  }
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  shutdown(socket, SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(socket, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  close(socket);
  return answer;
}

}  // namespace

// The first byte sets the size of the pieces in which the other bytes are sent.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const RunningServer running;
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  Exchange(running.port, bytes, data[0] == 0 ? bytes.size() : data[0]);
  const std::string probe = Exchange(
      running.port, "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", std::string_view::npos);
  if (!probe.starts_with("HTTP/1.1 200")) std::abort();
  return 0;
}
