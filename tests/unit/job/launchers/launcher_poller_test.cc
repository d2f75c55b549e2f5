#include "operator/job/launchers/launcher_poller.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "common/control/tls.h"
#include "tests/builders/job_builder.h"
#include "tests/fakes/eventually.h"
#include "worker/launcher/server/api_server.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::kJobUid;

std::shared_ptr<const Credentials> Keys(const char* seed) {
  auto keys = DeriveCredentials({.id = seed, .bytes = std::string(32, seed[0])}, "digits", kJobUid);
  return std::make_shared<const Credentials>(*std::move(keys));
}

// The launcher's real HTTPS server on loopback, with a status that the test sets.
class Launcher {
 public:
  explicit Launcher(const Credentials& keys)
      : tls_(*control::TlsContext::Server(keys.Item(control::kItemTlsKey),
                                          keys.Item(control::kItemTlsCertificate))),
        work_(boost::asio::make_work_guard(io_)) {
    auto server = launcher::StartApiServer(
        io_, "127.0.0.1", 0, *tls_, {.operator_token = keys.Item(control::kItemOperatorToken)},
        {.on_order = [this](const control::Order& order) { return Take(order); },
         .status = [this] { return Status(); }});
    EXPECT_TRUE(server.ok());
    server_ = *std::move(server);
    port = server_->port();
    thread_ = std::jthread([this] { io_.run(); });
  }
  ~Launcher() { io_.stop(); }

  void SetStep(int64_t step) {
    const std::lock_guard lock(mutex_);
    status_.progress = control::Progress{.step = step};
  }
  void RefuseOrders() {
    const std::lock_guard lock(mutex_);
    refuses_ = true;
  }
  // Stops answering, on existing and new connections, as when the node is disconnected.
  void End() {
    io_.stop();
    thread_.join();
    server_.reset();
    io_.restart();
    io_.poll();
  }
  std::vector<control::Order> Orders() const {
    const std::lock_guard lock(mutex_);
    return orders_;
  }

  int port = 0;

 private:
  Result<void> Take(const control::Order& order) {
    const std::lock_guard lock(mutex_);
    orders_.push_back(order);
    if (refuses_) return Error{ErrorKind::kConflict, "an order with a higher stamp was seen"};
    return {};
  }
  control::LauncherStatus Status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  mutable std::mutex mutex_;
  control::LauncherStatus status_;
  std::vector<control::Order> orders_;
  bool refuses_ = false;

  std::unique_ptr<control::TlsContext> tls_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unique_ptr<net::HttpServer> server_;
  std::jthread thread_;
};

// Lets the test wait for notifications of the poller instead of sleeping.
class News {
 public:
  void Tell() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool Until(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

LauncherPollerOptions Quick(int port) {
  return {.port = port,
          .deadline = std::chrono::milliseconds(2000),
          .first_retry = std::chrono::milliseconds(10),
          .retry = std::chrono::milliseconds(10),
          .busy_period = std::chrono::milliseconds(10),
          .steady_period = std::chrono::milliseconds(10),
          .most_per_second = 1000};
}

LauncherTarget Target(std::shared_ptr<const Credentials> keys, int replicas) {
  return {.job_key = "team-a/digits",
          .job_uid = kJobUid,
          .pod_uid = "launcher-uid",
          .pod_ip = "127.0.0.1",
          .credentials = std::move(keys),
          .order = {.stamp = {.leader_term = 1, .generation = replicas}, .replicas = replicas}};
}

// The launcher of a job, and the poller that polls it.
class LauncherPollerTest : public ::testing::Test {
 protected:
  void AwaitView() {
    poller.Watch(Target(keys, 3));
    ASSERT_TRUE(news.Until([&] { return poller.Latest(kJobUid).has_value(); }));
  }

  const std::shared_ptr<const Credentials> keys = Keys("a");
  Launcher launcher{*keys};
  const SystemClock clock{};
  News news;
  LauncherPoller poller{clock, [this](const std::string&) { news.Tell(); }, Quick(launcher.port)};
};

TEST_F(LauncherPollerTest, SendsTheOrderOnceAndBringsTheStatus) {
  launcher.SetStep(1);
  const auto step = [&]() -> int64_t {
    const auto view = poller.Latest(kJobUid);
    return view && view->status && view->status->progress ? view->status->progress->step : -1;
  };

  poller.Watch(Target(keys, 3));
  ASSERT_TRUE(news.Until([&] { return step() == 1; }));
  launcher.SetStep(2);
  ASSERT_TRUE(news.Until([&] { return step() == 2; }));

  ASSERT_EQ(launcher.Orders().size(), 1u);
  EXPECT_EQ(launcher.Orders()[0].replicas, 3);
  EXPECT_EQ(poller.Latest(kJobUid)->pod_uid, "launcher-uid");
}

TEST_F(LauncherPollerTest, SendsAChangedOrderAgain) {
  ASSERT_NO_FATAL_FAILURE(AwaitView());

  poller.Watch(Target(keys, 5));
  launcher.SetStep(1);

  ASSERT_TRUE(news.Until([&] {
    launcher.SetStep(static_cast<int64_t>(launcher.Orders().size()));
    const auto view = poller.Latest(kJobUid);
    return view->status && view->status->progress && view->status->progress->step == 2;
  }));
  EXPECT_EQ(launcher.Orders().back().replicas, 5);
}

TEST_F(LauncherPollerTest, ViewsTellWhichOrderTheLauncherHad) {
  const auto replicas = [&] {
    const auto view = poller.Latest(kJobUid);
    return view && view->order ? view->order->replicas : 0;
  };

  poller.Watch(Target(keys, 3));
  ASSERT_TRUE(news.Until([&] { return replicas() == 3; }));
  poller.Watch(Target(keys, 5));
  ASSERT_TRUE(news.Until([&] { return replicas() == 5; })) << "news although the status is equal";
}

TEST(LauncherPoller, OrdersThatFollowEachOtherAreSentAtALimitedRate) {
  const auto keys = Keys("a");
  Launcher launcher{*keys};
  const SystemClock clock{};
  News news;
  LauncherPollerOptions options = Quick(launcher.port);
  options.most_per_second = 4;
  LauncherPoller poller(
      clock, [&](const std::string&) { news.Tell(); }, options);
  const auto begin = std::chrono::steady_clock::now();

  for (int replicas = 1; replicas <= 6; ++replicas) {
    poller.Watch(Target(keys, replicas));
    ASSERT_TRUE(Eventually([&] { return launcher.Orders().size() >= std::size_t(replicas); }));
  }

  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
}

// Answers the first request with a chunk whose size never ends.
class EndlessLauncher {
 public:
  explicit EndlessLauncher(const Credentials& keys)
      : tls_(*control::TlsContext::Server(keys.Item(control::kItemTlsKey),
                                          keys.Item(control::kItemTlsCertificate))),
        acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}),
        port(acceptor_.local_endpoint().port()) {
    thread_ = std::jthread([this] { Serve(); });
  }

  std::atomic<std::size_t> sent{0};
  std::atomic<bool> closed{false};

 private:
  void Serve() {
    boost::system::error_code error;
    boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream(io_, tls_->asio());
    acceptor_.accept(stream.lowest_layer());
    stream.handshake(boost::asio::ssl::stream_base::server, error);
    std::string request(4096, ' ');
    if (!error) stream.read_some(boost::asio::buffer(request), error);
    std::string piece = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    while (!error && sent < (std::size_t{64} << 20)) {
      boost::asio::write(stream, boost::asio::buffer(piece), error);
      sent += piece.size();
      piece.assign(16 << 10, 'a');
    }
    closed = true;
  }

  std::unique_ptr<control::TlsContext> tls_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;

 public:
  const int port;

 private:
  std::jthread thread_;
};

TEST(LauncherPoller, AnAnswerWithoutAnEndIsNotKept) {
  const auto keys = Keys("a");
  EndlessLauncher launcher{*keys};
  const SystemClock clock{};
  News news;
  LauncherPollerOptions options = Quick(launcher.port);
  options.deadline = std::chrono::seconds(60);
  LauncherPoller poller(
      clock, [&](const std::string&) { news.Tell(); }, options);

  poller.Watch(Target(keys, 3));

  ASSERT_TRUE(news.Until([&] { return poller.Latest(kJobUid).has_value(); }));
  ASSERT_TRUE(Eventually([&] { return launcher.closed.load(); }));
  EXPECT_LT(launcher.sent, std::size_t{16} << 20) << "more than what sockets hold";
  EXPECT_FALSE(poller.Latest(kJobUid)->status.has_value());
}

TEST_F(LauncherPollerTest, ARefusalIsNoSilence) {
  launcher.RefuseOrders();

  poller.Watch(Target(keys, 3));

  ASSERT_TRUE(news.Until([&] { return poller.Latest(kJobUid).has_value(); }));
  EXPECT_TRUE(poller.Latest(kJobUid)->silent_since.has_value());
  EXPECT_FALSE(poller.Latest(kJobUid)->unheard_since.has_value());
  EXPECT_EQ(poller.Latest(kJobUid)->unheard_times, 0);
  EXPECT_TRUE(poller.Latest(kJobUid)->has_newer_order);

  launcher.End();

  EXPECT_TRUE(Eventually([&] { return !poller.Latest(kJobUid)->has_newer_order; }))
      << "a launcher that does not answer refuses nothing";
}

TEST_F(LauncherPollerTest, SilenceIsNewsAndCounted) {
  ASSERT_NO_FATAL_FAILURE(AwaitView());

  launcher.End();

  ASSERT_TRUE(news.Until([&] { return poller.Latest(kJobUid)->unheard_since.has_value(); }));
  ASSERT_TRUE(Eventually([&] { return poller.Latest(kJobUid)->unheard_times >= 3; }));
  EXPECT_TRUE(poller.Latest(kJobUid)->status.has_value()) << "its last words stay";
}

TEST_F(LauncherPollerTest, CountsWhoIsNotHeard) {
  ASSERT_NO_FATAL_FAILURE(AwaitView());

  const LaunchersHeard before = poller.Heard("team-a");
  launcher.End();
  ASSERT_TRUE(news.Until([&] { return poller.Latest(kJobUid)->unheard_since.has_value(); }));

  EXPECT_EQ(before.watched, 1);
  EXPECT_EQ(before.unheard, 0);
  EXPECT_EQ(poller.Heard("team-a").unheard, 1);
}

TEST(LauncherPoller, TrustsNoOtherJobsLauncher) {
  Launcher impostor(*Keys("b"));
  const SystemClock clock{};
  News news;
  LauncherPollerOptions options = Quick(impostor.port);
  LauncherPoller poller(
      clock, [&](const std::string&) { news.Tell(); }, options);

  poller.Watch(Target(Keys("a"), 3));

  std::optional<LauncherView> view;
  ASSERT_TRUE(Eventually([&] { return (view = poller.Latest(kJobUid)).has_value(); }));
  EXPECT_FALSE(view->status.has_value());
  EXPECT_TRUE(view->silent_since.has_value());
  EXPECT_TRUE(impostor.Orders().empty());
}

TEST_F(LauncherPollerTest, ForgottenJobsHaveNoView) {
  ASSERT_NO_FATAL_FAILURE(AwaitView());

  poller.Forget(kJobUid);

  EXPECT_TRUE(Eventually([&] { return !poller.Latest(kJobUid); }));
}

}  // namespace
}  // namespace ringmaster::job
