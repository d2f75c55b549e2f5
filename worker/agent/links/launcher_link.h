#pragma once

// The agent's connection to the launcher: connects, sends the agent's hello and heartbeats, detects
// silence, and reconnects for as long as the process lives. Implements the protocol of the
// connection and does not depend on slots. Single-threaded, on its io_context.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/control/line_connection.h"
#include "common/control/messages.h"
#include "common/control/tls.h"

namespace ringmaster::agent {

struct LinkOptions {
  std::string address;
  int port = 0;
  std::chrono::milliseconds connect_timeout{100};
  std::chrono::milliseconds first_retry{
      50};  // delay before the first welcome, because kube-proxy handles a new Service late
  // Delay after a broken connection, except before the first attempt: the launcher waits for it.
  std::chrono::milliseconds redial{200};
  std::chrono::milliseconds superseded_retry{1000};  // delay after a superseded launcher answered
  // Maximum time between the launcher's lines. After a Welcome, also at least four heartbeats, and
  // the time after which the launcher gives up a silent worker.
  std::chrono::milliseconds silence_limit{2000};
  std::chrono::milliseconds unreachable_after{
      30'000};  // time without a welcome before on_unreachable
};

class LauncherLink {
 public:
  struct Handlers {
    std::function<control::AgentHello()> hello;
    // Returns false if this launcher was superseded; the link then closes and reconnects.
    std::function<bool(std::int64_t term)> on_welcome;
    std::function<void(const control::Message&)>
        on_message;  // called for messages after the welcome, except Heartbeat
    // Called if the launcher refuses this agent permanently: the token or the job is wrong, or the
    // agent was declared lost.
    std::function<void(const std::string& reason)> on_refused;
    // Called when all sent messages have been passed to the kernel.
    std::function<void()> on_drained;
    // Called before each heartbeat, if the launcher has welcomed this agent.
    std::function<void()> on_heartbeat{};
    // Called once after each interruption that lasted for unreachable_after.
    std::function<void()> on_unreachable{};
  };

  // `io` and `tls` must outlive this object.
  LauncherLink(boost::asio::io_context& io, control::TlsContext& tls, LinkOptions options,
               Handlers handlers);
  ~LauncherLink();

  void Start();

  // Drops the message if no launcher has welcomed this agent.
  void Send(const control::Message& message);

  // Closes the connection and reconnects.
  void DialAgain(const std::string& reason);

  // Sends queued messages, closes the connection and never reconnects. `done` runs once the
  // messages are sent, or at once if there is no connection.
  void Finish(std::function<void()> done);

  bool welcomed() const { return welcomed_; }
  std::size_t QueuedBytes() const {
    return connection_ == nullptr ? 0 : connection_->queued_bytes();
  }

 private:
  void Dial();
  void DialLater(std::chrono::milliseconds delay);
  void OnDialled(Result<std::shared_ptr<control::LineConnection>> dialled);
  void OnMessage(control::Message message);
  void OnWelcome(const control::Welcome& welcome);
  void OnClosed(const std::string& reason);
  std::chrono::milliseconds RetryDelay(bool was_welcomed) const;
  std::chrono::milliseconds SilenceLimit() const;
  void Tick();

  boost::asio::io_context& io_;
  control::TlsContext& tls_;
  const LinkOptions options_;
  const Handlers handlers_;
  std::shared_ptr<control::LineConnection> connection_;
  boost::asio::steady_timer retry_;
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer unreachable_timer_;
  std::chrono::milliseconds heartbeat_{100};
  std::chrono::milliseconds lost_after_{0};  // from the Welcome
  std::chrono::steady_clock::time_point last_heard_;
  std::chrono::steady_clock::time_point last_tick_;
  std::chrono::steady_clock::time_point welcomed_at_;
  std::string last_failure_;                                    // to log each failure once
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // dial handlers may outlive *this
  std::function<void()> on_finished_;
  bool welcomed_ = false;
  bool ever_welcomed_ = false;
  bool superseded_ = false;
  bool finishing_ = false;
};

}  // namespace ringmaster::agent
