#include "tests/integration/harness/fault_proxy.h"

#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <list>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "tests/integration/harness/chunked_lines.h"
#include "tests/integration/harness/tls.h"

namespace ringmaster::testing {
namespace {

using Request = http::request<http::string_body>;
using Answered = http::response<http::string_body>;

Request ToUpstream(Request request, const Endpoint& upstream) {
  request.set(http::field::host, upstream.address);
  request.keep_alive(true);
  return request;
}

Answered MakeAnswer(const Fault& fault) {
  Answered answer(static_cast<http::status>(fault.status), 11);
  answer.set(http::field::content_type, "application/json");
  if (fault.retry_after > 0)
    answer.set(http::field::retry_after, std::to_string(fault.retry_after));
  answer.body() = nlohmann::json{
      {"kind", "Status"},
      {"apiVersion", "v1"},
      {"status", "Failure"},
      {"reason", fault.reason},
      {"message", "injected by the test"},
      {"code",
       fault.status}}.dump();
  answer.prepare_payload();
  return answer;
}

std::string ExpiredEvent() {
  return R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",)"
         R"("reason":"Expired","message":"injected by the test","code":410}})"
         "\n";
}

}  // namespace

bool ProxiedRequest::IsWatch() const {
  return method == "GET" && (target.find("watch=true") != std::string::npos ||
                             target.find("watch=1") != std::string::npos);
}

Fault Pass() { return {}; }

Fault Answer(int status, std::string reason, int retry_after) {
  Fault fault;
  fault.kind = Fault::Kind::kAnswer;
  fault.status = status;
  fault.reason = std::move(reason);
  fault.retry_after = retry_after;
  return fault;
}

Fault CutBefore(std::function<void()> at_cut) {
  Fault fault;
  fault.kind = Fault::Kind::kCutBefore;
  fault.at_cut = std::move(at_cut);
  return fault;
}

Fault CutAfter(std::function<void()> at_cut) {
  Fault fault = CutBefore(std::move(at_cut));
  fault.kind = Fault::Kind::kCutAfter;
  return fault;
}

class FaultProxy::Impl {
 public:
  Impl(const Endpoint& upstream, const std::string& certificate, const std::string& key)
      : upstream_(upstream),
        client_context_(net::ssl::context::tls_client),
        server_context_(net::ssl::context::tls_server),
        acceptor_(io_, {net::ip::make_address("127.0.0.1"), 0}) {
    Endpoint anonymous = upstream;  // has no certificate: only the operator's credentials count
    anonymous.certificate_file.clear();
    ConfigureClient(client_context_, anonymous);
    server_context_.use_certificate_chain_file(certificate);
    server_context_.use_private_key_file(key, net::ssl::context::pem);
    reaping_ = std::jthread([this](std::stop_token stop) { Reap(stop); });
    accepting_ = std::jthread([this] { Accept(); });
  }

  ~Impl() {
    stopping_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : sockets_) ::shutdown(fd, SHUT_RDWR);
    }
    connections_.clear();  // joins their threads
  }

  int port() const { return acceptor_.local_endpoint().port(); }

  // A connection from the operator, and the connection to the API server that serves it.
  struct Session {
    Session(net::ip::tcp::socket socket, Impl& impl)
        : down(std::move(socket), impl.server_context_), up(impl.io_, impl.client_context_) {}
    TlsStream down;
    TlsStream up;
    boost::beast::flat_buffer down_buffer;
    boost::beast::flat_buffer up_buffer;
    bool up_open = false;
  };

  // Registers a socket, so that the destructor can wake the thread that uses the socket.
  class Registration {
   public:
    Registration(Impl& impl, TlsStream& stream)
        : impl_(impl), fd_(stream.lowest_layer().native_handle()) {
      const std::lock_guard lock(impl_.mutex_);
      impl_.sockets_.insert(fd_);
    }
    ~Registration() {
      const std::lock_guard lock(impl_.mutex_);
      impl_.sockets_.erase(fd_);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    Impl& impl_;
    const int fd_;
  };

  enum class WatchEnd { kNone, kCut, kExpired };

  // A watch that is being relayed. Other threads end it by shutting down its upstream socket.
  class OpenWatch {
   public:
    OpenWatch(Impl& impl, Session& session)
        : impl_(impl),
          down_(session.down.lowest_layer().native_handle()),
          up_(session.up.lowest_layer().native_handle()) {
      const std::lock_guard lock(impl_.mutex_);
      impl_.watches_.insert(this);
    }
    ~OpenWatch() {
      const std::lock_guard lock(impl_.mutex_);
      impl_.watches_.erase(this);
    }
    OpenWatch(const OpenWatch&) = delete;
    OpenWatch& operator=(const OpenWatch&) = delete;

    // The next two functions require that the caller holds the mutex.
    void Finish(WatchEnd end) {
      end_ = end;
      ::shutdown(up_, SHUT_RDWR);
    }
    bool OperatorIsGone() const {
      pollfd down{down_, POLLRDHUP, 0};
      return ::poll(&down, 1, 0) > 0;
    }
    WatchEnd End() const { return end_; }

   private:
    Impl& impl_;
    const int down_;
    const int up_;
    std::atomic<WatchEnd> end_{WatchEnd::kNone};
  };

  void EndWatches(WatchEnd end) {
    const std::lock_guard lock(mutex_);
    for (OpenWatch* watch : watches_) watch->Finish(end);
  }

  // Ends watches whose client is gone: their threads wait for upstream and do not detect that.
  void Reap(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      for (OpenWatch* watch : watches_) {
        if (watch->OperatorIsGone()) watch->Finish(WatchEnd::kNone);
      }
      wake_.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; });
    }
  }

  void Accept() {
    while (!stopping_) {
      ErrorCode error;
      net::ip::tcp::socket socket(io_);
      acceptor_.accept(socket, error);
      if (error) break;
      const std::lock_guard lock(mutex_);
      connections_.remove_if([](const Connection& connection) { return connection.done->load(); });
      auto done = std::make_shared<std::atomic<bool>>(false);
      connections_.push_back({done, std::jthread([this, done, s = std::move(socket)]() mutable {
                                Serve(std::move(s));
                                *done = true;
                              })});
    }
  }

  void Serve(net::ip::tcp::socket socket) {
    ErrorCode error;
    socket.set_option(net::ip::tcp::no_delay(true), error);
    Session session(std::move(socket), *this);
    const Registration registration(*this, session.down);
    session.down.handshake(net::ssl::stream_base::server, error);
    while (!error && !stopping_) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(
          std::numeric_limits<int64_t>::max());  // with boost::none, Boost 1.74 rejects every body
      http::read(session.down, session.down_buffer, parser, error);
      if (error || !ServeRequest(session, parser.release())) break;
    }
  }

  // Returns false if the connection to the operator must be closed.
  bool ServeRequest(Session& session, Request request) {
    ProxiedRequest record = Record(request);
    const Fault fault = Decide(record);
    if (fault.delay.count() > 0) std::this_thread::sleep_for(fault.delay);
    if (fault.kind == Fault::Kind::kCutBefore) return Cut(fault);
    ErrorCode error;
    if (fault.kind == Fault::Kind::kAnswer) {
      Complete(record.number, fault.status);
      http::write(session.down, MakeAnswer(fault), error);
      return !error;
    }
    if (!OpenUpstream(session)) return false;
    const Registration registration(*this, session.up);
    http::write(session.up, ToUpstream(std::move(request), upstream_), error);
    if (error) return false;
    return record.IsWatch() ? RelayWatch(session, record) : RelayAnswer(session, record, fault);
  }

  static bool Cut(const Fault& fault) {
    if (fault.at_cut) fault.at_cut();
    return false;
  }

  bool OpenUpstream(Session& session) {
    if (session.up_open) return true;
    ErrorCode error;
    ConnectTls(session.up, upstream_, error);
    session.up_open = !error;
    return session.up_open;
  }

  bool RelayAnswer(Session& session, const ProxiedRequest& record, const Fault& fault) {
    ErrorCode error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    http::read(session.up, session.up_buffer, parser, error);
    if (error) return false;
    Answered answer = parser.release();
    Complete(record.number, static_cast<int>(answer.result_int()));
    if (fault.kind == Fault::Kind::kCutAfter) return Cut(fault);
    const bool keep = answer.keep_alive();
    http::write(session.down, answer, error);
    return !error && keep;
  }

  bool RelayWatch(Session& session, const ProxiedRequest& record) {
    ErrorCode error;
    http::response_parser<http::empty_body> parser;
    parser.skip(true);
    http::read_header(session.up, session.up_buffer, parser, error);
    if (error) return false;
    Complete(record.number, static_cast<int>(parser.get().result_int()));
    if (parser.get().result() != http::status::ok) return RelayRefusal(session, parser.get());
    http::response<http::empty_body> header(parser.get().result(), 11);
    header.set(http::field::content_type, parser.get()[http::field::content_type]);
    header.chunked(true);
    http::response_serializer<http::empty_body> serializer(header);
    http::write_header(session.down, serializer, error);
    const OpenWatch open(*this, session);
    ChunkedLines lines;
    while (!error && !lines.Ended()) {
      ErrorCode lost;
      for (const std::string& line :
           lines.Append(TakeBytes(session.up, session.up_buffer, error))) {
        SendEvent(session, record, line, lost);
      }
      if (lost) return false;
    }
    const WatchEnd end = open.End();
    if (end == WatchEnd::kCut) return CutLine(session);
    ErrorCode ignored;
    if (end == WatchEnd::kExpired) SendLine(session, ExpiredEvent(), ignored);
    net::write(session.down, http::make_chunk_last(), ignored);
    return false;  // the proxy does not read the rest of upstream's answer
  }

  bool CutLine(Session& session) {
    ErrorCode ignored;
    const std::string half = R"({"type":"MODIFIED","object":{"kind":)";
    net::write(session.down, http::make_chunk(net::buffer(half)), ignored);
    return false;
  }

  // Relays the answer to a watch that the API server rejects (403, 410, 422), with its length.
  bool RelayRefusal(Session& session, const http::response<http::empty_body>& header) {
    const std::size_t length =
        std::strtoul(std::string(header[http::field::content_length]).c_str(), nullptr, 10);
    ErrorCode error;
    std::string body;
    while (!error && body.size() < length) body += TakeBytes(session.up, session.up_buffer, error);
    Answered answer(header.result(), 11);
    answer.set(http::field::content_type, "application/json");
    answer.body() = body.substr(0, length);
    answer.prepare_payload();
    http::write(session.down, answer, error);
    return false;
  }

  void SendEvent(Session& session, const ProxiedRequest& record, const std::string& line,
                 ErrorCode& error) {
    if (event_delay_.load().count() > 0) std::this_thread::sleep_for(event_delay_.load());
    if (const OnEvent on_event = CurrentOnEvent()) on_event(record, line);
    SendLine(session, line, error);
    if (repeat_ && line.find(R"("BOOKMARK")") == std::string::npos) SendLine(session, line, error);
  }

  static void SendLine(Session& session, const std::string& line, ErrorCode& error) {
    if (!error) net::write(session.down, http::make_chunk(net::buffer(line)), error);
  }

  ProxiedRequest Record(const Request& request) {
    const std::lock_guard lock(mutex_);
    ProxiedRequest record;
    record.number = ++numbers_;
    record.method = std::string(request.method_string());
    record.target = std::string(request.target());
    record.body = request.body();
    record.authorization = std::string(request[http::field::authorization]);
    record.received = std::chrono::steady_clock::now();
    if (record.IsWrite() && !record.IsLease()) record.write = ++writes_;
    requests_.push_back(record);
    return record;
  }

  void Complete(uint64_t number, int status) {
    const std::lock_guard lock(mutex_);
    for (auto it = requests_.rbegin(); it != requests_.rend(); ++it) {
      if (it->number != number) continue;
      it->status = status;
      it->answered = std::chrono::steady_clock::now();
      return;
    }
  }

  Fault Decide(const ProxiedRequest& record) {
    Policy policy;
    {
      const std::lock_guard lock(mutex_);
      policy = policy_;
    }
    return policy ? policy(record) : Pass();
  }

  OnEvent CurrentOnEvent() {
    const std::lock_guard lock(mutex_);
    return on_event_;
  }

  struct Connection {
    std::shared_ptr<std::atomic<bool>> done;
    std::jthread thread;
  };

  const Endpoint upstream_;
  net::io_context io_;
  net::ssl::context client_context_;
  net::ssl::context server_context_;
  net::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> repeat_{false};
  std::atomic<std::chrono::milliseconds> event_delay_{std::chrono::milliseconds(0)};

  std::mutex mutex_;  // protects what follows
  Policy policy_;
  OnEvent on_event_;
  uint64_t numbers_ = 0;
  uint64_t writes_ = 0;
  std::vector<ProxiedRequest> requests_;
  std::set<int> sockets_;
  std::set<OpenWatch*> watches_;
  std::list<Connection> connections_;

  std::condition_variable_any wake_;
  std::jthread reaping_;
  std::jthread accepting_;
};

Result<std::unique_ptr<FaultProxy>> FaultProxy::Start(const Endpoint& upstream,
                                                      const std::string& certificate,
                                                      const std::string& key) {
  try {
    return std::unique_ptr<FaultProxy>(
        new FaultProxy(std::make_unique<Impl>(upstream, certificate, key)));
  } catch (const boost::system::system_error& error) {
    return Error{ErrorKind::kInternal, std::string("the proxy cannot start: ") + error.what()};
  }
}

FaultProxy::FaultProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FaultProxy::~FaultProxy() = default;

int FaultProxy::port() const { return impl_->port(); }

void FaultProxy::SetPolicy(Policy policy) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->policy_ = std::move(policy);
}

void FaultProxy::SetOnEvent(OnEvent on_event) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->on_event_ = std::move(on_event);
}

void FaultProxy::SetRepeatEvents(bool repeat) { impl_->repeat_ = repeat; }
void FaultProxy::SetEventDelay(std::chrono::milliseconds delay) { impl_->event_delay_ = delay; }
void FaultProxy::CutWatches() { impl_->EndWatches(Impl::WatchEnd::kCut); }
void FaultProxy::ExpireWatches() { impl_->EndWatches(Impl::WatchEnd::kExpired); }

std::vector<ProxiedRequest> FaultProxy::Requests() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->requests_;
}

std::vector<ProxiedRequest> FaultProxy::Writes() const {
  std::vector<ProxiedRequest> writes = Requests();
  std::erase_if(writes, [](const ProxiedRequest& request) { return request.write == 0; });
  return writes;
}

void FaultProxy::Forget() {
  const std::lock_guard lock(impl_->mutex_);
  impl_->requests_.clear();
}

}  // namespace ringmaster::testing
