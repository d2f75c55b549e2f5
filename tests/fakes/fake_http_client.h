#pragma once

// An HttpClient without a network: the test sets the answers and reads the requests. A request
// without an answer gets status 501, so that a missing answer is noticed. Thread-safe; the hooks
// run on the caller's thread, without locks.
//
//   FakeHttpClient http;
//
//   // The next request:
//   http.Answer(201, R"({"metadata":{"resourceVersion":"7"}})");
//   // Every request that has no queued answer:
//   http.on_send = [](const Request& request) -> Result<Response> { ... };
//   // The next stream, which then ends without an error:
//   http.AnswerStream({.chunks = {"{...}\n"}});
//
//   http.Sent().back().path

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operator/http/http_client.h"

namespace ringmaster::http {

struct FakeStream {
  int status = 200;    // 0: no response, only `error`
  std::string body{};  // the body of a response other than 2xx
  Headers headers{};
  std::vector<std::string> chunks{};  // passed to the caller one by one
  std::optional<Error> error{};       // the error after the chunks; unset: success
  bool until_stopped = false;  // stays open until stop is requested, then ends with kCancelled
};

class FakeHttpClient final : public HttpClient {
 public:
  std::function<Result<Response>(const Request&)> on_send;
  std::function<FakeStream(const Request&)> on_stream;

  void Answer(int status, std::string body, Headers headers = {});
  void Fail(Error error);
  void AnswerStream(FakeStream stream);

  std::vector<Request> Sent() const;  // requests and streams, in order
  void ForgetSent();

  Result<Response> Send(const Request& request, std::stop_token stop) override;
  using HttpClient::Send;
  Result<Response> Stream(const Request& request, const OnBytes& on_bytes,
                          std::stop_token stop) override;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Result<Response>> answers_;
  std::deque<FakeStream> streams_;
  std::vector<Request> sent_;
};

// Creates FakeHttpClients, through a hook if it is set, and keeps the options of each client.
class FakeHttpClientFactory final : public HttpClientFactory {
 public:
  // Called with the options of each new client. By default, a client answers 501.
  std::function<Result<std::unique_ptr<HttpClient>>(const HttpClientOptions&)> on_make;
  std::vector<HttpClientOptions> made;

  Result<std::unique_ptr<HttpClient>> Make(const HttpClientOptions& options) override;
};

}  // namespace ringmaster::http
