#pragma once

// The interface between Ringmaster and an HTTP library: a request with one response, or with a
// stream of bytes. kube/ uses it to talk to the API server. cpprest_http_client.h implements it,
// and tests/fakes/fake_http_client.h is its fake. It knows nothing about Kubernetes: a response
// with status 404 is a response, not an error.

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
// Names compare without case. For a repeated header the values are joined with ", ".
using Headers = std::map<std::string, std::string, HeaderNameLess>;

struct Request {
  Method method = Method::kGet;
  std::string path{};  // absolute path and query, already encoded (UrlEncode below)
  std::string body{};
  std::string content_type{};  // sent as given, when there is a body
  Headers headers{};  // beyond Accept, User-Agent and Content-Type; "Authorization" goes here
  std::chrono::milliseconds deadline{
      0};  // from the call to the last byte; 0: only the client's idle limit
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

// Error::reason of an answer that is longer than the client's limit.
inline constexpr char kTooLong[] = "TooLong";

// Thread-safe. All calls block; those in flight return kCancelled at once when `stop` is requested,
// and kTimeout when the request's deadline passed or the peer was silent for the client's idle
// limit. A peer that cannot be reached, a broken connection and a failed TLS check are
// kUnavailable; an answer longer than the client's limit is kInvalid, reason kTooLong.
class HttpClient {
 public:
  virtual ~HttpClient() = default;

  // One request and its whole answer, whatever its status. A request on a reused connection that
  // breaks before the answer may have been sent twice: callers use names that make a repetition
  // harmless.
  virtual Result<Response> Send(const Request& request, std::stop_token stop) = 0;
  Result<Response> Send(const Request& request) { return Send(request, {}); }

  // Hands the body of a 2xx answer to `on_bytes`, piece by piece, first an empty one when the
  // answer begins, and returns the answer with an empty body when the peer ends it or `on_bytes`
  // returns false. Any other status is returned with its body, without a call of `on_bytes`.
  virtual Result<Response> Stream(const Request& request, const OnBytes& on_bytes,
                                  std::stop_token stop) = 0;
};

// The outcome of one request.
struct Answered {
  Method method = Method::kGet;
  int status = 0;                    // 0: no answer
  std::chrono::nanoseconds took{0};  // until the answer's headers came, or the failure
};

// The server of a client, and the certificates that it trusts. PEM texts instead of files, so that
// the owner of a rotated file reads it.
struct HttpClientOptions {
  std::string base_url{};  // "https://10.0.0.1:443"; "http://..." only for tests on loopback
  std::string
      ca_pem{};  // the only certificates trusted; https without ca_pem and ca_file is kInvalid
  std::string ca_file{};  // instead of ca_pem: read for each new connection, so that a rotated file
                          // is picked up
  std::string server_name{};  // name to verify (and to send as Host and SNI) instead of base_url's
                              // host; empty: that host
  std::string certificate_pem{};  // client certificate and key, both or none
  std::string key_pem{};
  std::chrono::milliseconds idle_timeout{30'000};  // restarted with every byte
  // For Send; streams are limited by line_splitter.h instead. A JSON tree may take twenty times as
  // much memory.
  std::size_t max_response_bytes = 8 << 20;
  int max_in_flight = 64;  // further calls wait for a slot, within their deadline
  std::string user_agent = "ringmaster-operator/" RINGMASTER_VERSION;
  std::function<void(const Answered&)> on_answer{};  // for metrics; called on the caller's thread
};

class HttpClientFactory {
 public:
  virtual ~HttpClientFactory() = default;
  // Connects nowhere yet. kInvalid when the URL or a PEM text cannot be used.
  virtual Result<std::unique_ptr<HttpClient>> Make(const HttpClientOptions& options) = 0;
};

// Percent-encodes everything but RFC 3986's unreserved characters: for query values and path
// segments.
std::string UrlEncode(std::string_view text);

}  // namespace ringmaster::http
