#pragma once

// The interface between Ringmaster and an HTTP library: a request with one response, or with a
// stream of bytes. kube/ uses it to talk to the API server. cpprest_http_client.h implements it,
// and tests/fakes/fake_http_client.h is its fake. The interface is independent of Kubernetes, so a
// response with status 404 is a response, not an error.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <strings.h>

#include "common/base/result.h"

namespace ringmaster::http {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

constexpr const char* ToString(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  return "?";
}

struct HeaderNameLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const {
    const int order = strncasecmp(a.data(), b.data(), std::min(a.size(), b.size()));
    return order != 0 ? order < 0 : a.size() < b.size();
  }
};
// Header names are case-insensitive. The values of a repeated header are joined with ", ".
using Headers = std::map<std::string, std::string, HeaderNameLess>;

struct Request {
  Method method = Method::kGet;
  std::string path{};  // absolute path and query, already encoded (UrlEncode below)
  std::string body{};
  std::string content_type{};  // sent unchanged if there is a body
  Headers headers{};  // without Accept, User-Agent and Content-Type; may have "Authorization"
  std::chrono::milliseconds deadline{
      0};  // limit from the call to the last byte; 0: only idle_timeout applies
};

struct Response {
  int status = 0;
  Headers headers{};
  std::string body{};

  bool Success() const { return status >= 200 && status < 300; }
};

// Receives the bytes of a stream as they arrive, on the caller's thread. Returning false ends the
// stream.
using OnBytes = std::function<bool(std::string_view)>;

// Error::reason if a response is longer than the client's limit.
inline constexpr char kTooLong[] = "TooLong";

// Thread-safe. All calls block. Calls return kCancelled immediately when `stop` is requested, and
// kTimeout when the request's deadline or the idle timeout expires. They return kUnavailable for an
// unreachable server, a broken connection or a failed TLS check, and kInvalid with the reason
// kTooLong for a response that is longer than the client's limit.
class HttpClient {
 public:
  virtual ~HttpClient() = default;

  // Sends one request and returns the whole response, whatever its status. If a reused connection
  // breaks before the response, the request may be sent twice, so callers must send idempotent
  // requests.
  virtual Result<Response> Send(const Request& request, std::stop_token stop) = 0;
  Result<Response> Send(const Request& request) { return Send(request, {}); }

  // Passes the body of a 2xx response to `on_bytes` in pieces; the first piece is empty and marks
  // the start. Returns the response without its body when the body ends or `on_bytes` returns
  // false. For any other status, returns the response with its body and never calls `on_bytes`.
  virtual Result<Response> Stream(const Request& request, const OnBytes& on_bytes,
                                  std::stop_token stop) = 0;
};

// The outcome of one request.
struct Answered {
  Method method = Method::kGet;
  int status = 0;                    // 0: no response
  std::chrono::nanoseconds took{0};  // time until the response headers or the failure
};

// The server, the certificates and the limits of a client. Certificates are PEM texts: the caller
// reads the files and handles their rotation.
struct HttpClientOptions {
  std::string base_url{};  // "https://10.0.0.1:443"; "http://..." only for tests on loopback
  std::string
      ca_pem{};  // the only certificates trusted; https without ca_pem and ca_file is kInvalid
  std::string ca_file{};      // instead of ca_pem; read for each new connection, so that the client
                              // uses a rotated file
  std::string server_name{};  // server name to verify and to send as Host and SNI; empty: the host
                              // of base_url
  std::string certificate_pem{};  // client certificate; set both this and key_pem, or neither
  std::string key_pem{};
  std::chrono::milliseconds idle_timeout{30'000};  // maximum time between two received bytes
  // The limit for Send(); line_splitter.h limits streams instead. The parsed JSON may take twenty
  // times as much memory.
  std::size_t max_response_bytes = 8 << 20;
  int max_in_flight = 64;  // further calls wait for a slot until their deadline
  std::string user_agent = "ringmaster-operator/" RINGMASTER_VERSION;
  std::function<void(const Answered&)> on_answer{};  // for metrics; called on the caller's thread
};

class HttpClientFactory {
 public:
  virtual ~HttpClientFactory() = default;
  // Does not open a connection. Returns kInvalid if the URL or a PEM text is invalid.
  virtual Result<std::unique_ptr<HttpClient>> Make(const HttpClientOptions& options) = 0;
};

// Percent-encodes all characters except RFC 3986's unreserved ones. Use it for query values and
// path segments.
std::string UrlEncode(std::string_view text);

}  // namespace ringmaster::http
