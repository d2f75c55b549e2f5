#include "common/control/tls.h"

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/control/pod_contract.h"

namespace ringmaster::control {
namespace {

namespace ssl = boost::asio::ssl;

std::unique_ptr<ssl::context> NewContext(ssl::context::method method) {
  auto context = std::make_unique<ssl::context>(method);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // Sessions are never resumed, so tickets would only add a write to each handshake.
  SSL_CTX_set_num_tickets(context->native_handle(), 0);
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  return context;
}

Error Invalid(const std::string& doing, const boost::system::error_code& error) {
  ERR_clear_error();
  return Error{ErrorKind::kInvalid, "while " + doing + ": " + error.message()};
}

}  // namespace

Result<std::unique_ptr<TlsContext>> TlsContext::Server(const std::string& key_pem,
                                                       const std::string& certificate_pem) {
  auto context = NewContext(ssl::context::tls_server);
  boost::system::error_code error;
  context->use_certificate(boost::asio::buffer(certificate_pem), ssl::context::pem, error);
  if (error) return Invalid("loading the TLS certificate", error);
  context->use_private_key(boost::asio::buffer(key_pem), ssl::context::pem, error);
  if (error) return Invalid("loading the TLS key", error);
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    ERR_clear_error();
    return Error{ErrorKind::kInvalid, "the TLS key does not match the TLS certificate"};
  }
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(context), ""));
}

Result<std::unique_ptr<TlsContext>> TlsContext::Client(const std::string& certificate_pem,
                                                       const std::string& server_name) {
  auto context = NewContext(ssl::context::tls_client);
  boost::system::error_code error;
  context->add_certificate_authority(boost::asio::buffer(certificate_pem), error);
  if (error) return Invalid("loading the launcher's TLS certificate", error);
  // The certificate is self-signed; with this flag OpenSSL accepts it as a trust anchor even if it
  // is not a CA.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context->native_handle()),
                              X509_V_FLAG_PARTIAL_CHAIN);
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  context->set_verify_callback(ssl::host_name_verification(server_name));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(context), server_name));
}

TlsContext::TlsContext(std::unique_ptr<ssl::context> context, std::string server_name)
    : context_(std::move(context)), server_name_(std::move(server_name)) {}

TlsContext::~TlsContext() = default;

std::string TlsServerName(const std::string& job_uid) {
  return kTlsNamePrefix + job_uid + kTlsNameSuffix;
}

}  // namespace ringmaster::control
