#pragma once

// What tests and benchmarks use to talk to the API server: blocking HTTP over TLS with JSON, on
// kept-alive connections. It is its own client on purpose: the operator's must not be judged by
// itself.

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
  std::string certificate_file;  // either a client certificate and key …
  std::string key_file;
  std::string token;  // … or a bearer token
};

struct Response {
  int status = 0;  // 0: the connection failed; `body` says why
  nlohmann::json body;

  bool ok() const { return status >= 200 && status < 300; }
  std::string Text() const { return body.is_string() ? body.get<std::string>() : body.dump(); }
};

// The value at a JSON pointer, or null; and as text, empty for null.
nlohmann::json At(const nlohmann::json& object, const std::string& pointer);
std::string TextAt(const nlohmann::json& object, const std::string& pointer);

// Thread-safe; as many connections as callers at a time.
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

  // As Send, but the answer is the server's table of what it would have sent, without the objects:
  // what is large or asked for often should not cost the machine whole objects. `path` may have a
  // query.
  Response SendForTable(const std::string& method, const std::string& path,
                        const std::string& body = "");

  // The names of a list's objects, from its table. Empty where the server does not answer.
  std::vector<std::string> Names(const std::string& path);

  // Events of one watch request, in order, until it ends, `stop` is asked for, or `on_event`
  // returns false.
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

// Looks until `condition` holds, every few milliseconds at first and less often the longer it
// takes; what costs much time to look at takes a fifth of the time at most. False when the limit,
// times Patience(), has passed.
bool WaitUntil(const std::function<bool()>& condition,
               std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace ringmaster::testing
