#pragma once

// The API client of tests and benchmarks: blocking HTTP over TLS with JSON, on kept-alive
// connections. It is separate from the operator's client, so that tests do not check the
// operator's client with itself.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ringmaster::testing {

struct Endpoint {
  std::string address = "127.0.0.1";
  int port = 0;
  std::string ca_file;
  std::string certificate_file;  // client certificate; empty: `token` is used
  std::string key_file;
  std::string token;  // bearer token; empty: the certificate is used
};

struct Response {
  int status = 0;  // 0: the connection failed, and `body` is the error
  nlohmann::json body;

  bool ok() const { return status >= 200 && status < 300; }
  std::string Text() const { return body.is_string() ? body.get<std::string>() : body.dump(); }
};

// Returns the value at a JSON pointer, or null. TextAt() returns the value as text; "" for null.
nlohmann::json At(const nlohmann::json& object, const std::string& pointer);
std::string TextAt(const nlohmann::json& object, const std::string& pointer);

// Thread-safe. Uses one connection for each concurrent caller.
class ApiClient {
 public:
  explicit ApiClient(Endpoint endpoint);
  ~ApiClient();

  Response Get(const std::string& path) { return Send("GET", path, ""); }
  Response Post(const std::string& path, const nlohmann::json& body) {
    return Send("POST", path, body.dump());
  }
  Response Put(const std::string& path, const nlohmann::json& body) {
    return Send("PUT", path, body.dump());
  }
  Response MergePatch(const std::string& path, const nlohmann::json& body) {
    return Send("PATCH", path, body.dump(), "application/merge-patch+json");
  }
  Response Delete(const std::string& path, const nlohmann::json& options = nullptr) {
    return Send("DELETE", path, options.is_null() ? "" : options.dump());
  }
  Response Send(const std::string& method, const std::string& path, const std::string& body,
                const std::string& content_type = "application/json") {
    return Exchange(method, path, body, content_type, "application/json");
  }

  // Like Send(), but the server answers with a table of the objects instead of whole
  // objects. This is cheaper for answers that are large or requested often. `path` may have
  // a query.
  Response SendForTable(const std::string& method, const std::string& path,
                        const std::string& body = "");

  // Returns the names of a list's objects; empty if the server does not answer.
  std::vector<std::string> Names(const std::string& path);

  // Calls `on_event` for the events of one watch request, in order, until the request ends, `stop`
  // is requested, or `on_event` returns false.
  using OnEvent = std::function<bool(const nlohmann::json& event)>;
  void Watch(const std::string& path, std::stop_token stop, const OnEvent& on_event);

 private:
  class Connection;
  class Pool;

  Response Exchange(const std::string& method, const std::string& path, const std::string& body,
                    const std::string& content_type, const std::string& accept);

  const Endpoint endpoint_;
  const std::unique_ptr<Pool> pool_;
};

// Polls until `condition` is true, every 10 ms at first and every 100 ms later. After a slow check,
// the pause is four times as long as the check, at most one second. Returns false after `limit`
// times Patience().
bool WaitUntil(const std::function<bool()>& condition,
               std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace ringmaster::testing
