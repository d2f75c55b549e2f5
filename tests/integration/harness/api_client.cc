#include "tests/integration/harness/api_client.h"

#include <algorithm>
#include <mutex>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/patience.h"
#include "tests/integration/harness/chunked_lines.h"
#include "tests/integration/harness/tls.h"

namespace ringmaster::testing {

using nlohmann::json;

json At(const json& object, const std::string& pointer) {
  const json::json_pointer where(pointer);
  return object.contains(where) ? object.at(where) : json();
}

std::string TextAt(const json& object, const std::string& pointer) {
  const json value = At(object, pointer);
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump();
}

// A connection with its buffer. Used by one caller at a time.
class ApiClient::Connection {
 public:
  Connection(net::io_context& io, net::ssl::context& context) : stream(io, context) {}

  TlsStream stream;
  boost::beast::flat_buffer buffer;
};

class ApiClient::Pool {
 public:
  explicit Pool(const Endpoint& endpoint) : context_(net::ssl::context::tls_client) {
    ConfigureClient(context_, endpoint);
  }

  std::unique_ptr<Connection> TakeIdle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  std::unique_ptr<Connection> Open(const Endpoint& endpoint, ErrorCode& error) {
    auto connection = std::make_unique<Connection>(io_, context_);
    ConnectTls(connection->stream, endpoint, error);
    return connection;
  }

  void Return(std::unique_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
  }

 private:
  net::io_context io_;
  net::ssl::context context_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

namespace {

constexpr const char* kJson = "application/json";

http::request<http::string_body> MakeRequest(const Endpoint& endpoint, const std::string& method,
                                             const std::string& path, const std::string& body,
                                             const std::string& content_type,
                                             const std::string& accept) {
  http::request<http::string_body> request(http::string_to_verb(method), path, 11);
  request.set(http::field::host, endpoint.address);
  request.set(http::field::accept, accept);
  request.set(http::field::user_agent, "ringmaster-test");
  if (!endpoint.token.empty()) request.set(http::field::authorization, "Bearer " + endpoint.token);
  if (!body.empty()) {
    request.set(http::field::content_type, content_type);
    request.body() = body;
  }
  request.prepare_payload();
  return request;
}

nlohmann::json ParseBody(const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_discarded() ? nlohmann::json(text) : parsed;
}

}  // namespace

ApiClient::ApiClient(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), pool_(std::make_unique<Pool>(endpoint_)) {}

ApiClient::~ApiClient() = default;

Response ApiClient::Exchange(const std::string& method, const std::string& path,
                             const std::string& body, const std::string& content_type,
                             const std::string& accept) {
  const auto request = MakeRequest(endpoint_, method, path, body, content_type, accept);
  ErrorCode error;
  // The server may have closed idle connections. Tries another idle connection, and
  // finally a new connection.
  for (bool reused = true; reused;) {
    error = {};
    auto connection = pool_->TakeIdle();
    reused = connection != nullptr;
    if (!reused) connection = pool_->Open(endpoint_, error);
    if (error) break;
    http::write(connection->stream, request, error);
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    if (!error) http::read(connection->stream, connection->buffer, parser, error);
    if (error) continue;
    Response response{static_cast<int>(parser.get().result_int()), ParseBody(parser.get().body())};
    if (parser.get().keep_alive()) pool_->Return(std::move(connection));
    return response;
  }
  return {0, method + " " + path + ": " + error.message()};
}

void ApiClient::Watch(const std::string& path, std::stop_token stop, const OnEvent& on_event) {
  ErrorCode error;
  const auto connection = pool_->Open(endpoint_, error);
  if (error) return;
  const int fd = connection->stream.lowest_layer().native_handle();
  const std::stop_callback cut(stop, [fd] { ::shutdown(fd, SHUT_RDWR); });
  http::write(connection->stream, MakeRequest(endpoint_, "GET", path, "", "", kJson), error);
  http::response_parser<http::empty_body> parser;
  parser.skip(true);
  if (!error) http::read_header(connection->stream, connection->buffer, parser, error);
  if (error || parser.get().result() != http::status::ok) return;
  ChunkedLines lines;
  while (!error && !lines.Ended() && !stop.stop_requested()) {
    for (const std::string& line :
         lines.Append(TakeBytes(connection->stream, connection->buffer, error))) {
      if (!on_event(ParseBody(line))) return;
    }
  }
}

Response ApiClient::SendForTable(const std::string& method, const std::string& path,
                                 const std::string& body) {
  const std::string query = path.find('?') == std::string::npos ? "?" : "&";
  return Exchange(method, path + query + "includeObject=None", body, kJson,
                  "application/json;as=Table;g=meta.k8s.io;v=v1");
}

std::vector<std::string> ApiClient::Names(const std::string& path) {
  const Response table = SendForTable("GET", path);
  std::vector<std::string> names;
  if (!table.ok() || !table.body.contains("rows")) return names;
  for (const nlohmann::json& row : table.body.at("rows"))
    names.push_back(row.at("cells").at(0).get<std::string>());
  return names;
}

bool WaitUntil(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point time) {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - time);
  };
  for (const auto begin = Clock::now();;) {
    const auto look = Clock::now();
    if (condition()) return true;
    const milliseconds looked = since(look), waited = since(begin);
    if (waited > limit * Patience()) return false;
    std::this_thread::sleep_for(
        std::max(std::clamp(waited / 10, milliseconds(10), milliseconds(100)),
                 std::min(4 * looked, milliseconds(1000))));
  }
}

}  // namespace ringmaster::testing
