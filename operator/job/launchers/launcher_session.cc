#include "operator/job/launchers/launcher_session.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "common/base/log.h"
#include "operator/job/model/launcher_words.h"

namespace ringmaster::job {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

// The shortest silence that is logged.
constexpr auto kLongSilence = std::chrono::seconds(5);
// Weight of the newest measurement in the moving average of the pace.
constexpr double kPaceWeight = 0.2;

class Session final : public LauncherSession {
 public:
  Session(asio::io_context& io, const Clock& clock, const LauncherPollerOptions& options,
          LauncherTarget target, std::unique_ptr<control::TlsContext> tls, OnView on_view)
      : io_(io),
        clock_(clock),
        options_(options),
        target_(std::move(target)),
        tls_(std::move(tls)),
        on_view_(std::move(on_view)),
        timer_(io),
        order_text_(control::EncodeOrder(target_.order)) {
    view_.ns = target_.job_key.substr(0, target_.job_key.find('/'));
    view_.pod_uid = target_.pod_uid;
    view_.answered_before = target_.answered_before;
  }

  const LauncherTarget& target() const override { return target_; }
  void Start() override { Exchange(); }
  void SetOrder(const control::Order& order) override;
  void Stop() override;

 private:
  using Stream = beast::ssl_stream<beast::tcp_stream>;

  // Wraps `handler` in a callback that keeps the session and its stream alive. The callback does
  // nothing if the session was stopped or the stream was replaced.
  template <typename Handler>
  auto Then(Handler handler) {
    return [self = shared_from_this(), stream = stream_, this, handler](const error_code& error,
                                                                        auto&&...) {
      if (stopped_ || stream != stream_) return;
      const bool too_long =
          error == bhttp::error::body_limit || error == bhttp::error::buffer_overflow;
      if (error) return Fail(error.message(), too_long);
      handler();
    };
  }

  // The steps of one exchange, in order.
  void Exchange();
  void Connect();
  void Handshake();
  void Send();
  void Receive();
  void Answered();

  void Accept(control::LauncherStatus status, const std::string& text);
  // `answered` is true if the launcher responded, even with an unusable answer.
  void Fail(const std::string& why, bool answered = false);
  void Heard();
  void Close();
  void Wait(std::chrono::milliseconds delay);
  Clock::Time EarliestExchange() const;
  void MeasurePace(const control::LauncherStatus& status);
  std::chrono::milliseconds Period() const;

  asio::io_context& io_;
  const Clock& clock_;
  const LauncherPollerOptions options_;
  LauncherTarget target_;
  const std::unique_ptr<control::TlsContext> tls_;
  const OnView on_view_;

  asio::steady_timer timer_;
  std::shared_ptr<Stream> stream_;
  // Limited, because a body's limit does not apply to the sizes and trailers of chunks.
  beast::flat_buffer buffer_{std::size_t{64} << 10};
  bhttp::request<bhttp::string_body> request_;
  std::optional<bhttp::response_parser<bhttp::string_body>> parser_;

  std::string order_text_;    // the order that the launcher should have
  std::string sent_text_;     // the order of the exchange in progress; empty for a GET
  std::string acknowledged_;  // the last order that the launcher accepted
  std::shared_ptr<const control::Order> sent_order_;  // the order in sent_text_
  Clock::Time asked_at_{};                            // when the exchange in progress began
  std::deque<Clock::Time> begun_;                     // when the last exchanges began
  bool waiting_ = false;
  bool stopped_ = false;
  bool reported_silence_ = false;
  std::string last_answer_;
  LauncherView view_;
  int64_t paced_step_ = -1;
  Clock::Time paced_at_{};
};

void Session::SetOrder(const control::Order& order) {
  std::string text = control::EncodeOrder(order);
  if (text == order_text_) return;
  order_text_ = std::move(text);
  target_.order = order;
  if (waiting_) timer_.cancel();  // the handler of the wait starts the exchange
}

void Session::Stop() {
  stopped_ = true;
  timer_.cancel();
  Close();
}

void Session::Close() {
  if (stream_ == nullptr) return;
  beast::get_lowest_layer(*stream_).close();
  stream_.reset();
}

void Session::Exchange() {
  asked_at_ = clock_.Now();
  begun_.push_back(asked_at_);
  if (begun_.size() > static_cast<std::size_t>(options_.most_per_second)) begun_.pop_front();
  sent_text_ = order_text_ == acknowledged_ ? std::string() : order_text_;
  if (!sent_text_.empty()) sent_order_ = std::make_shared<const control::Order>(target_.order);
  stream_ == nullptr ? Connect() : Send();
}

void Session::Connect() {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(target_.pod_ip, error);
  if (error) return Fail("the Pod's address \"" + target_.pod_ip + "\" is not an IP address");
  stream_ = std::make_shared<Stream>(io_, tls_->asio());
  SSL_set_tlsext_host_name(stream_->native_handle(), tls_->server_name().c_str());
  auto& tcp = beast::get_lowest_layer(*stream_);
  tcp.expires_after(options_.deadline);
  tcp.async_connect(asio::ip::tcp::endpoint(address, static_cast<unsigned short>(options_.port)),
                    Then([this] { Handshake(); }));
}

void Session::Handshake() {
  stream_->async_handshake(asio::ssl::stream_base::client, Then([this] { Send(); }));
}

void Session::Send() {
  const bool put = !sent_text_.empty();
  request_ = {put ? bhttp::verb::put : bhttp::verb::get, put ? "/v1/order" : "/v1/status", 11};
  request_.set(bhttp::field::host, tls_->server_name());
  request_.set(bhttp::field::authorization,
               "Bearer " + target_.credentials->Item(control::kItemOperatorToken));
  if (put) {
    request_.set(bhttp::field::content_type, "application/json");
    request_.body() = sent_text_;
  }
  request_.keep_alive(true);
  request_.prepare_payload();
  beast::get_lowest_layer(*stream_).expires_after(options_.deadline);
  bhttp::async_write(*stream_, request_, Then([this] { Receive(); }));
}

void Session::Receive() {
  parser_.emplace();
  parser_->body_limit(control::MaxStatusBytes(target_.order.workers.size()));
  bhttp::async_read(*stream_, buffer_, *parser_, Then([this] { Answered(); }));
}

void Session::Answered() {
  const auto& response = parser_->get();
  const bool keep = response.keep_alive();
  beast::get_lowest_layer(*stream_).expires_never();
  view_.has_newer_order = response.result() == bhttp::status::conflict;
  if (response.result() != bhttp::status::ok) {
    return Fail("it responded with status " + std::to_string(response.result_int()) + ": " +
                    response.body().substr(0, 200),
                true);
  }
  auto status = control::DecodeLauncherStatus(response.body());
  if (!status.ok()) return Fail(status.error().message, true);
  Bound(*status);
  if (!sent_text_.empty()) {
    acknowledged_ = sent_text_;
    view_.order = sent_order_;
  }
  const std::string text = response.body();
  if (!keep) Close();
  Accept(*std::move(status), text);
}

void Session::Accept(control::LauncherStatus status, const std::string& text) {
  const bool changed =
      text != last_answer_ || view_.silent_since.has_value() || !sent_text_.empty();
  last_answer_ = text;
  MeasurePace(status);
  view_.status = std::move(status);
  if (!view_.answered_since) view_.answered_since = clock_.Now();
  view_.silent_since.reset();
  Heard();
  reported_silence_ = false;
  on_view_(view_, changed);
  Wait(order_text_ == acknowledged_ ? Period() : std::chrono::milliseconds(0));
}

void Session::Heard() {
  view_.unheard_since.reset();
  view_.unheard_times = 0;
}

void Session::Fail(const std::string& why, bool answered) {
  Close();
  buffer_.clear();
  const Clock::Time now = clock_.Now();
  // Count at most one deadline as silence, because the operator itself may have been suspended.
  const Clock::Time since = std::max(asked_at_, now - options_.deadline);
  if (answered) {
    Heard();
  } else {
    view_.has_newer_order = false;
    if (!view_.unheard_since) view_.unheard_since = since;
    ++view_.unheard_times;
  }
  const bool first = !view_.silent_since;
  if (first) {
    view_.silent_since = since;
    LogDebug("Got no answer from a launcher",
             {{"job", target_.job_key}, {"address", target_.pod_ip}, {"reason", why}});
  }
  const bool long_silence = now - *view_.silent_since > kLongSilence;
  if (long_silence && !reported_silence_) {
    reported_silence_ = true;
    LogWarn("Got no answer from a launcher for a long time",
            {{"job", target_.job_key}, {"address", target_.pod_ip}, {"reason", why}});
  }
  on_view_(view_, first || long_silence);
  const bool early = !view_.status && !long_silence;
  Wait(early ? options_.first_retry : options_.retry);
}

void Session::Wait(std::chrono::milliseconds delay) {
  waiting_ = true;
  timer_.expires_after(delay);
  timer_.async_wait([self = shared_from_this(), this](const error_code&) {
    waiting_ = false;
    if (stopped_) return;
    const auto early = EarliestExchange() - clock_.Now();
    early > early.zero() ? Wait(std::chrono::ceil<std::chrono::milliseconds>(early)) : Exchange();
  });
}

// A launcher whose every answer changes its order, and so causes another exchange at once, must not
// keep the poller's thread busy.
Clock::Time Session::EarliestExchange() const {
  const auto most = static_cast<std::size_t>(options_.most_per_second);
  return begun_.size() < most ? Clock::Time{} : begun_.front() + std::chrono::seconds(1);
}

// Measures the steps per second in the current world. A new world starts a new measurement.
void Session::MeasurePace(const control::LauncherStatus& status) {
  const Clock::Time now = clock_.Now();
  const bool same_world = view_.status && view_.status->epoch == status.epoch;
  if (!status.progress || !same_world || status.progress->step < paced_step_ || paced_step_ < 0) {
    view_.steps_per_second = 0;
    paced_step_ = status.progress ? status.progress->step : -1;
    paced_at_ = now;
    return;
  }
  const double seconds = std::chrono::duration<double>(now - paced_at_).count();
  if (status.progress->step == paced_step_ || seconds < 0.05) return;
  const double pace = static_cast<double>(status.progress->step - paced_step_) / seconds;
  view_.steps_per_second = view_.steps_per_second <= 0
                               ? pace
                               : kPaceWeight * pace + (1 - kPaceWeight) * view_.steps_per_second;
  paced_step_ = status.progress->step;
  paced_at_ = now;
}

std::chrono::milliseconds Session::Period() const {
  const bool steady = view_.status && view_.status->phase == control::LauncherPhase::kRunning;
  return steady ? options_.steady_period : options_.busy_period;
}

}  // namespace

std::shared_ptr<LauncherSession> LauncherSession::Make(asio::io_context& io, const Clock& clock,
                                                       const LauncherPollerOptions& options,
                                                       LauncherTarget target, OnView on_view) {
  auto tls = control::TlsContext::Client(target.credentials->Item(control::kItemTlsCertificate),
                                         control::TlsServerName(target.job_uid));
  if (!tls.ok()) {
    LogError("Failed to load the certificate of a job",
             {{"job", target.job_key}, {"reason", tls.error().message}});
    return nullptr;
  }
  return std::make_shared<Session>(io, clock, options, std::move(target), *std::move(tls),
                                   std::move(on_view));
}

}  // namespace ringmaster::job
