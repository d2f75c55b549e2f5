#include "tests/integration/harness/fake_launcher.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <list>
#include <mutex>
#include <random>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "common/control/pod_contract.h"
#include "tests/integration/harness/tls.h"

namespace ringmaster::testing {
namespace {

bool CanListen(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(control::kApiPort);
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
  ::close(fd);
  return bound;
}

std::set<std::string> Members(const control::LauncherStatus& status) {
  std::set<std::string> uids;
  for (const control::WorkerReport& worker : status.workers) {
    if (worker.member) uids.insert(worker.pod_uid);
  }
  return uids;
}

std::set<std::string> Uids(const control::Order& order) {
  std::set<std::string> uids;
  for (const control::DesiredWorker& worker : order.workers) uids.insert(worker.pod_uid);
  return uids;
}

// Sets the status that a healthy launcher reports once all ordered workers have connected: a world
// of these workers, with a new epoch if the set has changed.
void Obey(const control::Order& order, control::LauncherStatus& status) {
  status.last_order = order.stamp;
  if (order.replicas == 0) {
    for (control::WorkerReport& worker : status.workers) {
      worker.member = false;
      worker.drained = true;
    }
    status.phase = control::LauncherPhase::kWaitingForAgents;
    status.world_size = 0;
    return;
  }
  const bool complete = static_cast<int>(order.workers.size()) >= order.replicas;
  if (!complete) {
    status.phase = control::LauncherPhase::kWaitingForAgents;
    return;
  }
  const std::set<std::string> ordered = Uids(order);
  const std::set<std::string> members = Members(status);
  if (status.phase == control::LauncherPhase::kRunning && members == ordered) return;
  status.workers.clear();
  for (const control::DesiredWorker& worker : order.workers) {
    control::WorkerReport& report = status.workers.emplace_back();
    report.pod_uid = worker.pod_uid;
    report.ready = report.member = true;
  }
  for (const std::string& uid : members) {
    if (ordered.contains(uid)) continue;
    control::WorkerReport& report = status.workers.emplace_back();
    report.pod_uid = uid;
    report.ready = report.drained = true;
  }
  status.epoch = {status.term, status.epoch.number + 1};
  status.phase = control::LauncherPhase::kRunning;
  status.world_size = static_cast<int>(order.workers.size());
}

}  // namespace

std::string FreeLoopbackAddress() {
  static std::mutex mutex;
  static std::set<std::string> given;
  const std::lock_guard lock(mutex);
  std::random_device random;
  for (;;) {
    const unsigned bits = random();
    const std::string address = "127." + std::to_string(64 + bits % 128) + "." +
                                std::to_string(bits / 128 % 256) + "." +
                                std::to_string(1 + bits / 32768 % 250);
    if (CanListen(address) && given.insert(address).second) return address;
  }
}

class FakeLauncher::Impl {
 public:
  explicit Impl(const LauncherIdentity& identity)
      : token_(identity.operator_token),
        context_(net::ssl::context::tls_server),
        acceptor_(io_, {net::ip::make_address(identity.address), control::kApiPort}) {
    context_.use_certificate_chain(net::buffer(identity.certificate_pem));
    context_.use_private_key(net::buffer(identity.key_pem), net::ssl::context::pem);
    status_.term = identity.term;
    accepting_ = std::jthread([this] { Accept(); });
  }

  ~Impl() { Stop(); }

  void Stop() {
    if (stopping_.exchange(true)) return;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    accepting_.join();
    ErrorCode ignored;
    acceptor_.close(ignored);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : sockets_) ::shutdown(fd, SHUT_RDWR);
    }
    threads_.clear();
  }

  void Accept() {
    while (!stopping_) {
      ErrorCode error;
      net::ip::tcp::socket socket(io_);
      acceptor_.accept(socket, error);
      if (error) return;
      threads_.emplace_back([this, s = std::move(socket)]() mutable { Serve(std::move(s)); });
    }
  }

  void Serve(net::ip::tcp::socket socket) {
    TlsStream stream(std::move(socket), context_);
    const int fd = stream.lowest_layer().native_handle();
    Remember(fd);
    ErrorCode error;
    stream.handshake(net::ssl::stream_base::server, error);
    boost::beast::flat_buffer buffer;
    while (!error && !stopping_) {
      http::request<http::string_body> request;
      http::read(stream, buffer, request, error);
      if (error) break;
      http::response<http::string_body> response = Handle(request);
      response.prepare_payload();
      http::write(stream, response, error);
      if (!response.keep_alive()) break;
    }
    Forget(fd);
  }

  http::response<http::string_body> Handle(const http::request<http::string_body>& request) {
    const std::lock_guard lock(mutex_);
    ++calls_;
    http::response<http::string_body> response(http::status::ok, 11);
    response.keep_alive(request.keep_alive());
    if (request[http::field::authorization] != "Bearer " + token_) {
      ++unauthorized_;
      response.result(http::status::unauthorized);
      return response;
    }
    const bool order = request.method() == http::verb::put && request.target() == "/v1/order";
    if (order) response.result(TakeOrder(request.body()));
    if (!order && request.target() != "/v1/status") response.result(http::status::not_found);
    response.set(http::field::content_type, "application/json");
    const std::string status = control::EncodeLauncherStatus(status_);
    response.body() = of_launcher_ ? of_launcher_(status) : status;
    return response;
  }

  http::status TakeOrder(const std::string& body) {
    auto order = control::DecodeOrder(of_operator_ ? of_operator_(body) : body);
    if (!order.ok()) return http::status::bad_request;
    if (order->stamp < status_.last_order) return http::status::conflict;
    order_ = *order;
    Act();
    return http::status::ok;
  }

  // REQUIRES: mutex_ is locked.
  void Act() {
    if (!order_ || !obedient_) return;
    const std::set<std::string> ordered = Uids(*order_);
    const std::set<std::string> members = Members(status_);
    const bool leaving =
        !std::includes(ordered.begin(), ordered.end(), members.begin(), members.end());
    if (drains_ || !leaving) Obey(*order_, status_);
  }

  void Remember(int fd) {
    const std::lock_guard lock(mutex_);
    sockets_.insert(fd);
  }

  void Forget(int fd) {
    const std::lock_guard lock(mutex_);
    sockets_.erase(fd);
  }

  const std::string token_;
  net::io_context io_;
  net::ssl::context context_;
  net::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // protects what follows
  control::LauncherStatus status_;
  std::optional<control::Order> order_;
  AsAnotherVersion of_operator_;
  AsAnotherVersion of_launcher_;
  bool obedient_ = true;
  bool drains_ = true;
  int calls_ = 0;
  int unauthorized_ = 0;
  std::set<int> sockets_;

  std::list<std::jthread> threads_;  // used only by the accepting thread until it is joined
  std::jthread accepting_;
};

Result<std::unique_ptr<FakeLauncher>> FakeLauncher::Start(const LauncherIdentity& identity) {
  try {
    return std::unique_ptr<FakeLauncher>(new FakeLauncher(std::make_unique<Impl>(identity)));
  } catch (const boost::system::system_error& error) {
    return Error{ErrorKind::kInternal,
                 "the fake launcher cannot start: " + std::string(error.what())};
  }
}

FakeLauncher::FakeLauncher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FakeLauncher::~FakeLauncher() = default;

std::optional<control::Order> FakeLauncher::LastOrder() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->order_;
}

control::LauncherStatus FakeLauncher::Status() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->status_;
}

int FakeLauncher::Calls() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->calls_;
}

int FakeLauncher::Unauthorized() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->unauthorized_;
}

void FakeLauncher::SetVersions(AsAnotherVersion of_operator, AsAnotherVersion of_launcher) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->of_operator_ = std::move(of_operator);
  impl_->of_launcher_ = std::move(of_launcher);
}

void FakeLauncher::Report(const std::function<void(control::LauncherStatus&)>& change) {
  const std::lock_guard lock(impl_->mutex_);
  change(impl_->status_);
}

void FakeLauncher::Stop() { impl_->Stop(); }

void FakeLauncher::SetObedient(bool obedient) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->obedient_ = obedient;
}

void FakeLauncher::SetDrains(bool drains) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->drains_ = drains;
  impl_->Act();
}

}  // namespace ringmaster::testing
