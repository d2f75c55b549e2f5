#include "operator/http/admin_server.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace ringmaster::http {
namespace {

constexpr std::string_view kBearer = "Bearer ";

struct HostAndPort {
  std::string host;
  int port = 0;
};

std::optional<HostAndPort> Split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  HostAndPort split{address.substr(0, colon)};
  if (split.host.starts_with('[') && split.host.ends_with(']')) {
    split.host = split.host.substr(1, split.host.size() - 2);
  }
  const char* const end = address.data() + address.size();
  const auto [parsed, error] = std::from_chars(address.data() + colon + 1, end, split.port);
  const bool number = error == std::errc() && parsed == end;
  if (!number || split.port < 1 || split.port > 65535) return std::nullopt;
  return split;
}

class Server final : public AdminServer {
 public:
  Server(AdminPages pages, AdminProtection protection)
      : pages_(std::move(pages)), protection_(std::move(protection)) {}

  ~Server() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> Open(const std::string& address) {
    const auto where = Split(address);
    if (!where) return Error{ErrorKind::kInvalid, "write it as ADDRESS:PORT"};
    if (where->host.empty()) {
      const Result<void> both_families = Listen("::", where->port);
      return both_families.ok() ? both_families : Listen("0.0.0.0", where->port);
    }
    boost::system::error_code error;
    boost::asio::ip::tcp::resolver resolver(io_);
    const auto found = resolver.resolve(where->host, std::to_string(where->port),
                                        boost::asio::ip::tcp::resolver::passive, error);
    if (error) return Error{ErrorKind::kInvalid, error.message()};
    return Listen(found.begin()->endpoint().address().to_string(), where->port);
  }

 private:
  Result<void> Listen(const std::string& address, int port) {
    net::HttpHandlers handlers{.answer = [this](const auto& request) { return Answer(request); }};
    if (protection_.judge) {
      handlers.check = [this](const auto& request, net::Admit admit) {
        Check(request, std::move(admit));
      };
    }
    auto server = net::StartHttpServer(io_, address, port, protection_.tls,
                                       {.idle_limit = protection_.idle_limit}, std::move(handlers));
    if (!server.ok()) return server.error();
    server_ = *std::move(server);
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  AdminPages::const_iterator Find(const net::HttpRequest& request) const {
    return pages_.find(request.target.substr(0, request.target.find('?')));
  }

  // Admits or refuses a request. Tokens are reviewed only for pages that exist.
  void Check(const net::HttpRequest& request, net::Admit admit) const {
    if (const auto refusal = Refusal(request)) return admit(refusal);
    if (!request.authorization.starts_with(kBearer)) {
      return admit(net::HttpAnswer{401, "show a bearer token\n"});
    }
    protection_.judge(request.authorization.substr(kBearer.size()), std::move(admit));
  }

  std::optional<net::HttpAnswer> Refusal(const net::HttpRequest& request) const {
    if (Find(request) == pages_.end()) return net::HttpAnswer{404, "not found\n"};
    if (request.method != "GET") return net::HttpAnswer{405, "only GET is served\n"};
    return std::nullopt;
  }

  net::HttpAnswer Answer(const net::HttpRequest& request) const {
    if (auto refusal = Refusal(request)) return *std::move(refusal);
    return Find(request)->second();
  }

  const AdminPages pages_;
  const AdminProtection protection_;
  boost::asio::io_context io_{1};
  std::unique_ptr<net::HttpServer> server_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address,
                                                        AdminPages pages,
                                                        AdminProtection protection) {
  auto server = std::make_unique<Server>(std::move(pages), std::move(protection));
  if (const Result<void> opened = server->Open(address); !opened.ok()) {
    return Error{ErrorKind::kInvalid,
                 "while listening on " + address + ": " + opened.error().message};
  }
  return std::unique_ptr<AdminServer>(std::move(server));
}

}  // namespace ringmaster::http
