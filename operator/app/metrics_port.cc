#include "operator/app/metrics_port.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <boost/asio/ssl/context.hpp>
#include <openssl/rand.h>

#include "common/base/log.h"
#include "common/control/tls.h"
#include "operator/job/credentials/key_derivation.h"

namespace ringmaster {
namespace {

// The idle timeout of admitted clients. It exceeds the usual scrape interval of Prometheus.
constexpr std::chrono::seconds kScraperMayBeSilent{120};

std::shared_ptr<boost::asio::ssl::context> ContextOf(std::shared_ptr<control::TlsContext> tls) {
  boost::asio::ssl::context* context = &tls->asio();
  return {std::move(tls), context};
}

// Creates this process's self-signed certificate. It suffices, because clients identify the
// operator by its address and their tokens are not valid elsewhere.
Result<net::TlsSource> OwnCertificate(const std::string& name) {
  std::string key(32, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    return Error{ErrorKind::kInternal, "the system provides no random bytes for a key"};
  }
  const auto pair = job::MakeTlsKeyPair(key, name);
  if (!pair.ok()) return pair.error();
  auto tls = control::TlsContext::Server(pair->key_pem, pair->certificate_pem);
  if (!tls.ok()) return tls.error();
  return net::TlsSource(
      [context = ContextOf(std::shared_ptr(*std::move(tls)))] { return context; });
}

// The certificate in the files tls.crt and tls.key of a folder, such as a mounted Secret. Reads the
// files again when they change. Used on the server's thread.
class MountedCertificate {
 public:
  explicit MountedCertificate(std::filesystem::path folder) : folder_(std::move(folder)) {}

  Result<void> Load() {
    const Times times = Look();
    auto tls = control::TlsContext::Server(Read("tls.key"), Read("tls.crt"));
    if (!tls.ok()) return tls.error();
    context_ = ContextOf(std::shared_ptr(*std::move(tls)));
    loaded_ = times;
    return {};
  }

  std::shared_ptr<boost::asio::ssl::context> Context() {
    const Times times = Look();
    if (times == loaded_ || times == refused_) return context_;
    if (const Result<void> loaded = Load(); !loaded.ok()) {
      refused_ = times;
      LogWarn("Failed to read the new certificate of /metrics; still serving the old one",
              {{"folder", folder_.string()}, {"error", loaded.error().message}});
    }
    return context_;
  }

 private:
  using Times = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;

  Times Look() const {
    std::error_code ignored;
    return {std::filesystem::last_write_time(folder_ / "tls.crt", ignored),
            std::filesystem::last_write_time(folder_ / "tls.key", ignored)};
  }
  std::string Read(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const std::filesystem::path folder_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  Times loaded_{};
  Times refused_{};
};

Result<net::TlsSource> CertificateOf(const Config& config) {
  if (config.metrics_certificates.empty()) return OwnCertificate(config.instance);
  auto mounted = std::make_shared<MountedCertificate>(config.metrics_certificates);
  if (const Result<void> loaded = mounted->Load(); !loaded.ok()) {
    return Error{ErrorKind::kInvalid,
                 "--metrics-certificates: failed to load tls.crt and tls.key from " +
                     config.metrics_certificates + ": " + loaded.error().message};
  }
  return net::TlsSource([mounted] { return mounted->Context(); });
}

std::optional<net::HttpAnswer> RefusalOf(runtime::Access access) {
  switch (access) {
    case runtime::Access::kAllowed:
      return std::nullopt;
    case runtime::Access::kUnauthenticated:
      return net::HttpAnswer{401, "the API server did not accept the token\n"};
    case runtime::Access::kForbidden:
      return net::HttpAnswer{403,
                             "the token's owner may not get /metrics: bind the ClusterRole "
                             "ringmaster-metrics-reader or another role that allows it\n"};
    case runtime::Access::kBusy:
      return net::HttpAnswer{429, "too many unknown tokens; try again later\n"};
    case runtime::Access::kUnknown:
      break;
  }
  return net::HttpAnswer{503, "the API server did not review the token; try again later\n"};
}

}  // namespace

MetricsPort::MetricsPort(std::unique_ptr<runtime::TokenAccess> access)
    : access_(std::move(access)) {}

MetricsPort::~MetricsPort() {
  if (access_) access_->Stop();  // stop it before the server, which its callbacks use
}

Result<std::unique_ptr<MetricsPort>> MetricsPort::Start(const Config& config,
                                                        kube::KubeClient& reviews,
                                                        const Clock& clock,
                                                        std::function<std::string()> text) {
  auto certificate = CertificateOf(config);
  if (!certificate.ok()) return certificate.error();
  std::unique_ptr<MetricsPort> port(new MetricsPort(
      config.metrics_authorization ? std::make_unique<runtime::TokenAccess>(reviews, clock)
                                   : nullptr));
  http::AdminProtection protection{.tls = *std::move(certificate),
                                   .idle_limit = kScraperMayBeSilent};
  if (port->access_) {
    port->access_->Start();
    protection.judge = [access = port->access_.get()](const std::string& token, net::Admit admit) {
      access->Judge(
          token, [admit = std::move(admit)](runtime::Access judged) { admit(RefusalOf(judged)); });
    };
  }
  auto server = http::AdminServer::Start(
      config.metrics_address,
      {{"/metrics",
        [text = std::move(text)] {
          return net::HttpAnswer{200, text(), "text/plain; version=0.0.4; charset=utf-8"};
        }}},
      std::move(protection));
  if (!server.ok()) return server.error();
  port->server_ = *std::move(server);
  return port;
}

}  // namespace ringmaster
