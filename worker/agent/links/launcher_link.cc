#include "worker/agent/links/launcher_link.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <boost/asio/post.hpp>

#include "common/base/log.h"

namespace ringmaster::agent {
namespace {

// If a tick is this late, the agent was suspended and may have missed messages.
constexpr std::chrono::milliseconds kLateTick{500};

// The number of missed heartbeats after which the launcher counts as silent.
constexpr int kBeatsBeforeLoss = 4;

}  // namespace

LauncherLink::LauncherLink(boost::asio::io_context& io, control::TlsContext& tls,
                           LinkOptions options, Handlers handlers)
    : io_(io),
      tls_(tls),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      retry_(io),
      tick_(io),
      unreachable_timer_(io) {}

LauncherLink::~LauncherLink() {
  *alive_ = false;
  if (connection_ != nullptr) connection_->Close("the agent is stopping");
}

void LauncherLink::Start() { Dial(); }

void LauncherLink::Send(const control::Message& message) {
  if (welcomed_) connection_->Send(message);
}

void LauncherLink::DialAgain(const std::string& reason) {
  if (connection_ != nullptr) connection_->Close(reason);
}

void LauncherLink::Finish(std::function<void()> done) {
  finishing_ = true;
  retry_.cancel();
  tick_.cancel();
  unreachable_timer_.cancel();
  if (connection_ == nullptr) return boost::asio::post(io_, std::move(done));
  on_finished_ = std::move(done);
  connection_->Finish("the agent is stopping");
}

void LauncherLink::Dial() {
  control::DialOptions options;
  options.connect_timeout = options_.connect_timeout;
  control::DialTls(io_, options_.address, options_.port, tls_, options,
                   [this, alive = alive_](Result<std::shared_ptr<control::LineConnection>> got) {
                     if (*alive) OnDialled(std::move(got));
                   });
}

void LauncherLink::DialLater(std::chrono::milliseconds delay) {
  if (finishing_) return;
  retry_.expires_after(delay);
  retry_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) Dial();
  });
}

void LauncherLink::OnDialled(Result<std::shared_ptr<control::LineConnection>> dialled) {
  if (finishing_) return;
  if (!dialled.ok()) {
    if (dialled.error().message != last_failure_) {
      last_failure_ = dialled.error().message;
      LogInfo("Waiting for the launcher to answer", {{"reason", last_failure_}});
    }
    return DialLater(RetryDelay(false));
  }
  connection_ = *dialled;
  superseded_ = false;
  last_heard_ = last_tick_ = std::chrono::steady_clock::now();
  connection_->Start({.on_message =
                          [this, alive = alive_](control::Message message) {
                            if (*alive) OnMessage(std::move(message));
                          },
                      .on_closed =
                          [this, alive = alive_](const std::string& reason) {
                            if (*alive) OnClosed(reason);
                          },
                      .on_drained =
                          [this, alive = alive_] {
                            if (*alive && welcomed_) handlers_.on_drained();
                          }});
  connection_->Send(handlers_.hello());
  Tick();
}

void LauncherLink::OnMessage(control::Message message) {
  last_heard_ = std::chrono::steady_clock::now();
  if (const auto* refused = std::get_if<control::Refused>(&message)) {
    return handlers_.on_refused(refused->reason);
  }
  if (const auto* welcome = std::get_if<control::Welcome>(&message)) return OnWelcome(*welcome);
  if (!welcomed_) return;
  if (const auto* beat = std::get_if<control::Heartbeat>(&message)) {
    if (beat->every_millis > 0) heartbeat_ = std::chrono::milliseconds(beat->every_millis);
    return;
  }
  handlers_.on_message(message);
}

void LauncherLink::OnWelcome(const control::Welcome& welcome) {
  if (welcome.protocol < control::kFirstProtocol) {
    return handlers_.on_refused("it speaks protocol " + std::to_string(welcome.protocol) +
                                ", but this agent requires at least " +
                                std::to_string(control::kFirstProtocol) +
                                "; use the same image for both");
  }
  last_failure_.clear();
  heartbeat_ = std::chrono::milliseconds(std::max(1, welcome.heartbeat_millis));
  lost_after_ = std::chrono::milliseconds(welcome.lost_after_millis);
  welcomed_ = ever_welcomed_ = true;
  welcomed_at_ = std::chrono::steady_clock::now();
  LogInfo("Joined the launcher", {{"launcher", connection_->peer()}, {"term", welcome.term}});
  if (handlers_.on_welcome(welcome.term)) {
    unreachable_timer_.cancel();
    return;
  }
  welcomed_ = false;
  superseded_ = true;
  connection_->Close("its term " + std::to_string(welcome.term) + " was superseded");
}

void LauncherLink::OnClosed(const std::string& reason) {
  connection_.reset();
  tick_.cancel();
  if (on_finished_) return std::exchange(on_finished_, nullptr)();
  const bool was_welcomed = std::exchange(welcomed_, false);
  if (was_welcomed) {
    LogWarn("Lost the launcher", {{"reason", reason}});
    unreachable_timer_.expires_after(options_.unreachable_after);
    unreachable_timer_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled && !welcomed_ && handlers_.on_unreachable) handlers_.on_unreachable();
    });
  }
  DialLater(RetryDelay(was_welcomed));
}

std::chrono::milliseconds LauncherLink::RetryDelay(bool was_welcomed) const {
  if (superseded_) return options_.superseded_retry;
  if (!ever_welcomed_) return options_.first_retry;
  const auto lasted = std::chrono::steady_clock::now() - welcomed_at_;
  // Reconnect at once, unless the launcher closed the connection soon after it was opened.
  const bool at_once = was_welcomed && lasted >= options_.redial;
  return at_once ? std::chrono::milliseconds(0) : options_.redial;
}

// In large jobs, the launcher makes heartbeats less frequent. A connection that is closed before
// the launcher gives up this worker would itself count as a loss.
std::chrono::milliseconds LauncherLink::SilenceLimit() const {
  if (!welcomed_) return options_.silence_limit;
  return std::max({options_.silence_limit, kBeatsBeforeLoss * heartbeat_, lost_after_});
}

// Sends a heartbeat, and closes the connection if the launcher has been silent for too long.
void LauncherLink::Tick() {
  tick_.expires_after(heartbeat_);
  tick_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled || connection_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_tick_ > heartbeat_ + kLateTick) last_heard_ = now;
    last_tick_ = now;
    if (now - last_heard_ > SilenceLimit()) {
      return connection_->Close("no message for " + std::to_string(SilenceLimit().count()) + " ms");
    }
    if (welcomed_ && handlers_.on_heartbeat) handlers_.on_heartbeat();
    if (welcomed_) connection_->Send(control::Heartbeat{});
    Tick();
  });
}

}  // namespace ringmaster::agent
