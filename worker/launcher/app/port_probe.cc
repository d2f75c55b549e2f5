#include "worker/launcher/app/port_probe.h"

#include <cstdint>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace ringmaster::launcher {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

struct Attempt {
  explicit Attempt(asio::io_context& io) : socket(io), limit(io) {}
  asio::ip::tcp::socket socket;
  asio::steady_timer limit;
};

}  // namespace

void PortProbe::Ask(const std::string& address, int port,
                    std::function<void(bool refused)> answer) {
  error_code bad;
  const asio::ip::address target = asio::ip::make_address(address, bad);
  const std::weak_ptr<int> alive = running_;
  const bool possible = !bad && port > 0 && port <= 65535 && *running_ < kMaxAtOnce;
  if (!possible) {
    return asio::post(io_, [alive, answer = std::move(answer)] {
      if (!alive.expired()) answer(false);
    });
  }
  ++*running_;
  const auto attempt = std::make_shared<Attempt>(io_);
  attempt->limit.expires_after(kLimit);
  attempt->limit.async_wait([attempt](const error_code& done) {
    error_code ignored;
    if (!done) attempt->socket.close(ignored);
  });
  attempt->socket.async_connect(
      {target, static_cast<std::uint16_t>(port)},
      [alive, attempt, answer = std::move(answer)](const error_code& error) {
        attempt->limit.cancel();
        const std::shared_ptr<int> running = alive.lock();
        if (!running) return;
        --*running;
        answer(error == asio::error::connection_refused);
      });
}

}  // namespace ringmaster::launcher
