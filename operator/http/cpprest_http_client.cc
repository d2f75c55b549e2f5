#include "operator/http/cpprest_http_client.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <cpprest/http_client.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include "operator/http/deadline_watch.h"
#include "operator/http/fifo_semaphore.h"
#include "operator/http/tls_material.h"

namespace ringmaster::http {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using Traits = concurrency::streams::streambuf<uint8_t>::traits;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Configures TLS for a new connection. The library reports its exceptions as request errors.
void SetUpTls(boost::asio::ssl::context& context, const HttpClientOptions& options) {
  // Remove the system's certificate authorities, which the library has loaded.
  SSL_CTX_set_cert_store(context.native_handle(), X509_STORE_new());
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  const std::string authorities =
      options.ca_file.empty() ? options.ca_pem : ReadFile(options.ca_file);
  context.add_certificate_authority(boost::asio::buffer(authorities));
  if (options.certificate_pem.empty()) return;
  context.use_certificate_chain(boost::asio::buffer(options.certificate_pem));
  context.use_private_key(boost::asio::buffer(options.key_pem), boost::asio::ssl::context::pem);
}

web::http::client::http_client_config MakeConfig(const HttpClientOptions& options) {
  web::http::client::http_client_config config;
  config.set_timeout(options.idle_timeout);
  config.set_max_redirects(0);  // a redirect would send the token to another host
  config.set_ssl_context_callback(
      [options](boost::asio::ssl::context& context) { SetUpTls(context, options); });
  return config;
}

web::http::method ToMethod(Method method) { return ToString(method); }

Headers ReadHeaders(const web::http::http_response& response) {
  Headers headers;
  for (const auto& [name, value] : response.headers()) headers.emplace(name, value);
  return headers;
}

// Cancels a request at its deadline or on a stop request, and stores the cause, because the
// library's error codes do not show it. Releasing a request does not end it, so the destructor
// cancels it unless Finished() was called.
class Canceller {
 public:
  Canceller(DeadlineWatch& watch, std::optional<SteadyTime> deadline, const std::stop_token& stop)
      : on_stop_(stop, [this] { Cancel(stopped_); }) {
    if (deadline) guard_.emplace(watch, *deadline, [this] { Cancel(expired_); });
  }
  ~Canceller() {
    if (!finished_) source_.cancel();
  }
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;

  pplx::cancellation_token token() const { return source_.get_token(); }
  // Call it when the answer is complete: its connection returns to the pool and must stay open.
  void Finished() { finished_ = true; }

  Error Classify(const std::string& what, const std::exception& thrown) const {
    if (stopped_) return {ErrorKind::kCancelled, what + ": stopped"};
    if (expired_) return {ErrorKind::kTimeout, what + ": deadline exceeded"};
    const auto* http = dynamic_cast<const web::http::http_exception*>(&thrown);
    // timed_out is the library's only reliable error code.
    if (http != nullptr && http->error_code() == std::errc::timed_out) {
      return {ErrorKind::kTimeout, what + ": the server sent nothing for too long"};
    }
    return {ErrorKind::kUnavailable, what + ": " + thrown.what()};
  }

 private:
  void Cancel(std::atomic<bool>& cause) {
    cause = true;
    source_.cancel();
  }

  pplx::cancellation_token_source source_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> expired_{false};
  bool finished_ = false;
  std::optional<DeadlineWatch::Guard> guard_;
  std::stop_callback<std::function<void()>> on_stop_;
};

class CpprestHttpClient final : public HttpClient {
 public:
  CpprestHttpClient(const HttpClientOptions& options, DeadlineWatch& deadlines)
      : options_(options),
        deadlines_(deadlines),
        client_(web::uri(options.base_url), MakeConfig(options)),
        slots_(options.max_in_flight) {}

  Result<Response> Send(const Request& request, std::stop_token stop) override {
    return Perform(request, stop,
                   [this](web::http::http_response& answer, Response& response, const Canceller&) {
                     return ReadBody(answer, response.body);
                   });
  }

  Result<Response> Stream(const Request& request, const OnBytes& on_bytes,
                          std::stop_token stop) override {
    return Perform(request, stop,
                   [&](web::http::http_response& answer, Response& response, const Canceller&) {
                     if (!response.Success()) return ReadBody(answer, response.body);
                     if (on_bytes({})) Drain(answer, on_bytes);
                     return Result<bool>(false);  // a stream's connection is not reused
                   });
  }

 private:
  // Implements Send and Stream. `read` returns true if it has read the answer completely.
  template <typename Read>
  Result<Response> Perform(const Request& request, const std::stop_token& stop, const Read& read) {
    std::optional<SteadyTime> deadline;
    if (request.deadline.count() > 0)
      deadline = std::chrono::steady_clock::now() + request.deadline;
    Result<FifoSemaphore::Slot> slot = slots_.Acquire(deadline, stop);
    if (!slot.ok()) return slot.error();

    Response response;
    const SteadyTime started = std::chrono::steady_clock::now();
    std::optional<SteadyTime> answered;
    const auto observe = [&] {
      if (!options_.on_answer) return;
      const SteadyTime until = answered ? *answered : std::chrono::steady_clock::now();
      options_.on_answer(
          {.method = request.method, .status = response.status, .took = until - started});
    };
    std::string phase = "connecting to " + options_.base_url;
    try {
      Canceller canceller(deadlines_, deadline, stop);
      try {
        web::http::http_response answer =
            client_.request(Translate(request), canceller.token()).get();
        answered = std::chrono::steady_clock::now();
        phase = "reading the response from " + options_.base_url;
        response.status = answer.status_code();
        response.headers = ReadHeaders(answer);
        const Result<bool> complete = read(answer, response, canceller);
        if (complete.ok() && *complete) canceller.Finished();
        observe();
        if (!complete.ok()) return complete.error();
        return response;
      } catch (const std::exception& thrown) {
        observe();
        return canceller.Classify(phase, thrown);
      }
    } catch (const std::exception& thrown) {
      return Error{ErrorKind::kInternal, phase + ": " + thrown.what()};
    }
  }

  web::http::http_request Translate(const Request& request) const {
    web::http::http_request translated(ToMethod(request.method));
    translated.set_request_uri(web::uri(request.path));
    auto& headers = translated.headers();
    if (!request.body.empty()) translated.set_body(request.body, request.content_type);
    headers.add("User-Agent", options_.user_agent);
    // If the Host header is set, the library sends its value as the TLS server name and verifies
    // the certificate against it.
    if (!options_.server_name.empty()) headers.add("Host", options_.server_name);
    for (const auto& [name, value] : request.headers) headers.add(name, value);
    return translated;
  }

  // Reads the whole body. Returns an error if it is too long.
  Result<bool> ReadBody(web::http::http_response& answer, std::string& body) const {
    const Error too_long{ErrorKind::kInvalid,
                         "the response of " + options_.base_url + " is longer than " +
                             std::to_string(options_.max_response_bytes) + " bytes",
                         kTooLong};
    if (answer.headers().has("Content-Length")) {
      if (answer.headers().content_length() > options_.max_response_bytes) return too_long;
      const std::vector<unsigned char> bytes = answer.extract_vector().get();
      body.assign(bytes.begin(), bytes.end());
      return true;
    }
    const bool fits = Drain(answer, [&](std::string_view bytes) {
      body.append(bytes);
      return body.size() <= options_.max_response_bytes;
    });
    if (!fits) return too_long;
    return true;
  }

  // Passes data to `on_bytes` as it arrives. Waits for one byte and then reads all available bytes.
  // The library's functions that search for a delimiter would block a thread of the pool and could
  // deadlock a small pool. Returns true if the peer ended the body.
  static bool Drain(web::http::http_response& answer, const OnBytes& on_bytes) {
    auto buffer = answer.body().streambuf();
    std::string bytes;
    while (buffer.getc().get() != Traits::eof()) {
      bytes.resize(buffer.in_avail());
      bytes.resize(buffer.getn(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()).get());
      if (!on_bytes(bytes)) return false;
    }
    return true;
  }

  const HttpClientOptions options_;
  DeadlineWatch& deadlines_;
  web::http::client::http_client client_;
  FifoSemaphore slots_;
};

Result<void> Check(const HttpClientOptions& options) {
  if (!options.ca_pem.empty()) {
    if (Result<void> good = CheckCertificates(options.ca_pem); !good.ok()) {
      return good.error().WithContext("reading the certificate authorities");
    }
  } else if (options.ca_file.empty() && options.base_url.starts_with("https:")) {
    return Error{ErrorKind::kInvalid,
                 "no certificate authority is configured for " + options.base_url};
  }
  if (options.certificate_pem.empty() != options.key_pem.empty()) {
    return Error{ErrorKind::kInvalid, "a client certificate and its key must be given together"};
  }
  if (options.certificate_pem.empty()) return {};
  return CheckKeyPair(options.certificate_pem, options.key_pem);
}

}  // namespace

Result<void> InitializeHttpThreads(int threads) {
  // The library loads all of the system's certificate authorities for each connection. SetUpTls()
  // removes them before they are used, so avoid loading them.
  ::setenv("SSL_CERT_FILE", "/dev/null", 1);
  try {
    crossplat::threadpool::initialize_with_threads(static_cast<size_t>(threads));
    return {};
  } catch (const std::exception& thrown) {
    return Error{ErrorKind::kInternal,
                 std::string("while starting the HTTP threads: ") + thrown.what()};
  }
}

CpprestHttpClientFactory::CpprestHttpClientFactory()
    : deadlines_(std::make_unique<DeadlineWatch>()) {}
CpprestHttpClientFactory::~CpprestHttpClientFactory() = default;

Result<std::unique_ptr<HttpClient>> CpprestHttpClientFactory::Make(
    const HttpClientOptions& options) {
  if (Result<void> good = Check(options); !good.ok()) return good.error();
  try {
    return std::unique_ptr<HttpClient>(std::make_unique<CpprestHttpClient>(options, *deadlines_));
  } catch (const std::exception& thrown) {
    return Error{ErrorKind::kInvalid, "cannot use " + options.base_url + ": " + thrown.what()};
  }
}

}  // namespace ringmaster::http
