#include "tests/fakes/fake_http_client.h"

#include <condition_variable>
#include <utility>

namespace ringmaster::http {

void FakeHttpClient::Answer(int status, std::string body, Headers headers) {
  const std::lock_guard lock(mutex_);
  answers_.emplace_back(Response{status, std::move(headers), std::move(body)});
}

void FakeHttpClient::Fail(Error error) {
  const std::lock_guard lock(mutex_);
  answers_.emplace_back(std::move(error));
}

void FakeHttpClient::AnswerStream(FakeStream stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
}

std::vector<Request> FakeHttpClient::Sent() const {
  const std::lock_guard lock(mutex_);
  return sent_;
}

void FakeHttpClient::ForgetSent() {
  const std::lock_guard lock(mutex_);
  sent_.clear();
}

Result<Response> FakeHttpClient::Send(const Request& request, std::stop_token stop) {
  if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "stopped"};
  {
    const std::lock_guard lock(mutex_);
    sent_.push_back(request);
    if (!answers_.empty()) {
      Result<Response> answer = std::move(answers_.front());
      answers_.pop_front();
      return answer;
    }
  }
  if (on_send) return on_send(request);
  return Response{501, {}, "no answer was scripted"};
}

Result<Response> FakeHttpClient::Stream(const Request& request, const OnBytes& on_bytes,
                                        std::stop_token stop) {
  FakeStream stream{.status = 501, .body = "no stream was scripted"};
  bool scripted = false;
  {
    const std::lock_guard lock(mutex_);
    sent_.push_back(request);
    if (!streams_.empty()) {
      stream = std::move(streams_.front());
      streams_.pop_front();
      scripted = true;
    }
  }
  if (!scripted && on_stream) stream = on_stream(request);
  if (stream.status == 0) return *stream.error;
  if (stream.status >= 300) return Response{stream.status, stream.headers, stream.body};
  if (!on_bytes({})) return Response{stream.status, stream.headers, {}};
  for (const std::string& chunk : stream.chunks) {
    if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "stopped"};
    if (!on_bytes(chunk)) return Response{stream.status, stream.headers, {}};
  }
  if (stream.until_stopped) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait(lock, stop, [] { return false; });
    return Error{ErrorKind::kCancelled, "stopped"};
  }
  if (stream.error) return *stream.error;
  return Response{stream.status, stream.headers, {}};
}

Result<std::unique_ptr<HttpClient>> FakeHttpClientFactory::Make(const HttpClientOptions& options) {
  made.push_back(options);
  if (on_make) return on_make(options);
  return std::unique_ptr<HttpClient>(std::make_unique<FakeHttpClient>());
}

}  // namespace ringmaster::http
